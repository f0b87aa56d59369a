// SPDX-License-Identifier: Apache-2.0
// Messages about a command line that memprofd or memprofctl does not understand.
#pragma once

#include <string>
#include <vector>

namespace memprofd {

// Explains arguments that no option and no position takes. help: the command that lists the
// options, "memprofctl sites --help". Empty if there are none.
std::string unexpected_argument_text(const std::vector<std::string>& arguments,
                                     const std::string& help);

}  // namespace memprofd
