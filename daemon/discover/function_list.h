// SPDX-License-Identifier: Apache-2.0
// The OCaml functions of a program by name, with the places where calls of them can be counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/discover/elf_file.h"
#include "daemon/discover/function_code.h"

namespace memprofd {

struct ListedFunction {
  std::string name;           // from name_of
  std::uint64_t address = 0;  // the file's own
  std::uint64_t size = 0;     // bytes of code
  FunctionCode code;
};

struct FunctionList {
  std::vector<ListedFunction> functions;  // ordered by address; at most `most`
  std::uint64_t matching = 0;             // includes functions beyond that limit
};

struct FunctionChoice {
  // The function's name for users; nullopt if it was not requested.
  std::function<std::optional<std::string>(const ElfFunction& function)> name_of;
  std::size_t most = 0;
};

// Reads the code of the requested functions. kFailedPrecondition, one line: the program is
// stripped, so its functions cannot be found.
absl::StatusOr<FunctionList> list_functions(ElfFile& program, const FunctionChoice& choice);

}  // namespace memprofd
