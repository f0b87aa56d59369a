// SPDX-License-Identifier: Apache-2.0
// Marshalled values and compiler files built by a test.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace memprofd {

inline std::string big_endian(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes; i > 0; --i) out += static_cast<char>(value >> (8 * (i - 1)));
  return out;
}

// Builds parts of a value, without a header.
namespace marshal {
inline std::string integer(std::int64_t value) {
  return '\x03' + big_endian(static_cast<std::uint64_t>(value), 8);
}
inline std::string text(const std::string& characters) {
  return '\x09' + big_endian(characters.size(), 1) + characters;
}
inline std::string block(unsigned tag, std::initializer_list<std::string> fields) {
  std::string out = '\x08' + big_endian(fields.size() << 10 | tag, 4);
  for (const std::string& field : fields) out += field;
  return out;
}
inline std::string shared(unsigned back) { return '\x05' + big_endian(back, 2); }
// An OCaml list.
inline std::string list(std::initializer_list<std::string> items) {
  std::string out;
  for (const std::string& item : items) out += '\x08' + big_endian(2 << 10, 4) + item;
  return out + integer(0);
}
}  // namespace marshal

inline std::string marshalled(const std::string& value) {
  return big_endian(0x8495a6be, 4) + big_endian(value.size(), 4) + std::string(12, '\0') + value;
}

// (name, Some digest)
inline std::string import_of(const std::string& module, const std::string& digest) {
  return marshal::block(0, {marshal::text(module), marshal::block(0, {marshal::text(digest)})});
}

// A .cmi of OCaml 5.3 with that module and signature.
inline std::string interface_file(const std::string& module, const std::string& signature,
                                  const std::string& imports = marshal::list({})) {
  return "Caml1999I035" + marshalled(marshal::block(0, {marshal::text(module), signature})) +
         marshalled(imports) + marshalled(marshal::integer(0));
}

// An entry of caml_globals_map, with a digest of its implementation.
inline std::string linked_unit(const std::string& name, const std::string& digest) {
  using namespace marshal;
  return block(0, {text(name), digest.empty() ? integer(0) : block(0, {text(digest)}),
                   block(0, {text(std::string(16, 'i'))}), list({text(name)})});
}

}  // namespace memprofd
