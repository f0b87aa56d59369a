// SPDX-License-Identifier: Apache-2.0
// Escapes text for regular expressions, CSV and XML.

// A regular expression, also for RE2, that matches exactly this text.
export const escapeRegExp = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

// A CSV cell (RFC 4180).
export const csvCell = (text: string): string => (/[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);

// Text for an XML element or attribute; characters that XML forbids become U+FFFD.
export const xmlText = (text: string): string =>
  text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
