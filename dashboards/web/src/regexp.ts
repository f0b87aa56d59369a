// SPDX-License-Identifier: Apache-2.0
// A regular expression that matches just this text, also for RE2.
export const quoted = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
