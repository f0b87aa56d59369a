// SPDX-License-Identifier: Apache-2.0
// libFuzzer for the targets of this folder.
//
//   fuzz_targets                                    their names
//   fuzz_targets TARGET FOLDER [-max_total_time=..]  from the inputs of the folder on, which has
//   the
//                                                   seeds then, and what was found
//   fuzz_targets TARGET FILE                        reads one, as one that failed
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerRunDriver(int* argc, char*** argv,
                                   int (*callback)(const unsigned char* data, std::size_t size));

namespace memprofd::fuzz {
namespace {

Target chosen;

int read_one(const unsigned char* data, std::size_t size) {
  // Exactly as long as the input, so that a sanitizer detects reads past its end.
  const std::vector<char> bytes(data, data + size);
  chosen.read({bytes.data(), bytes.size()});
  return 0;
}

// Skips seeds that the target rejects, because they lead nowhere.
void write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::size_t number = 0;
  for (const std::string& seed : chosen.seeds()) {
    require(chosen.read(seed), "a seed is not well-formed");
    std::ofstream(folder / ("seed-" + std::to_string(number++)), std::ios::binary) << seed;
  }
}

int run(int argc, char** argv) {
  if (argc < 3) {
    for (const auto& [name, target] : targets()) std::cout << name << "\n";
    return argc == 1 ? 0 : 2;
  }
  const auto found = targets().find(argv[1]);
  if (found == targets().end()) {
    std::cerr << "fuzz_targets: no target " << argv[1] << "\n";
    return 2;
  }
  chosen = found->second;
  if (!std::filesystem::is_regular_file(argv[2])) write_seeds(argv[2]);
  argv[1] = argv[0];
  --argc;
  ++argv;
  return LLVMFuzzerRunDriver(&argc, &argv, &read_one);
}

}  // namespace
}  // namespace memprofd::fuzz

int main(int argc, char** argv) { return memprofd::fuzz::run(argc, argv); }
