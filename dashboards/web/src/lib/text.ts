// SPDX-License-Identifier: Apache-2.0
// Text for places that have a syntax of their own.

// A regular expression that matches just this text, also for RE2.
export const escapeRegExp = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

// A cell of a line of CSV (RFC 4180).
export const csvCell = (text: string): string => (/[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);

// Text of an element or attribute of XML; what XML does not allow becomes U+FFFD.
export const xmlText = (text: string): string =>
  text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
