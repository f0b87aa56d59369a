// SPDX-License-Identifier: Apache-2.0
// A parser of bytes that somebody else chooses, and bytes that are as they should be. Each
// *_fuzz.cc of this folder adds one; fuzz_targets.cc has libFuzzer drive it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace memprofd::fuzz {

struct Target {
  // Reads them and checks what it gets. Whether they are well-formed.
  bool (*read)(std::string_view bytes) = nullptr;
  // Where mutations begin: well-formed, each.
  std::vector<std::string> (*seeds)() = nullptr;
};

inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

struct Add {
  Add(const std::string& name, const Target& target) { targets()[name] = target; }
};

// What must hold, whatever the bytes are.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

// Cuts values off the front of bytes; zeros when there are no more.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T take() {
    T value{};
    const std::string_view bytes = take_bytes(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::string_view take_bytes(std::size_t most) {
    const std::string_view bytes = rest_.substr(0, most);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

template <typename T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace memprofd::fuzz
