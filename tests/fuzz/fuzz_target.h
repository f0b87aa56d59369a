// SPDX-License-Identifier: Apache-2.0
// A parser of untrusted bytes, with well-formed examples. Each *_fuzz.cc of this folder adds one;
// fuzz_targets.cc runs it with libFuzzer.
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
  // Parses the bytes and checks the result. Returns true if they are well-formed.
  bool (*read)(std::string_view bytes) = nullptr;
  // Well-formed inputs from which mutations start.
  std::vector<std::string> (*seeds)() = nullptr;
};

inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

struct Add {
  Add(const std::string& name, const Target& target) { targets()[name] = target; }
};

// A condition that must hold for any input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

// Takes values off the front of the bytes; zeros after their end.
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
