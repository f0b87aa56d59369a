// SPDX-License-Identifier: Apache-2.0
// Quotes text as one word of a POSIX shell.
#pragma once

#include <string>

namespace memprofd {

// Adds single quotes, unless no character has a meaning for the shell.
std::string shell_word(const std::string& text);

}  // namespace memprofd
