// SPDX-License-Identifier: Apache-2.0
#include "daemon/trace/ctf/ctf_locations.h"

namespace memprofd::ctf {
namespace {

constexpr unsigned kStartShift = 20;
constexpr unsigned kEndShift = 28;
constexpr unsigned kFileShift = 38;
constexpr unsigned kFunctionShift = 43;

void cut_at_nul(std::string& text) {
  if (const auto nul = text.find('\0'); nul != std::string::npos) text.resize(nul);
}

// Size with every name in full.
std::size_t max_bytes(std::span<const Location> locations) {
  std::size_t bytes = sizeof(std::uint64_t) + 1;
  for (const Location& location : locations) {
    bytes += 6 + location.file.size() + 1 + location.function.size() + 1;
  }
  return bytes;
}

// Returns the index to write, and moves the name to the front.
template <typename Entry>
std::uint64_t touch(RecentNames<Entry>& names, const std::string& name, Entry*& entry) {
  const std::optional<std::size_t> index = names.find(name);
  entry = index ? &names.to_front(*index) : &names.enter(name);
  return index.value_or(kNewName);
}

template <typename Entry>
Entry& read_name(RecentNames<Entry>& names, std::uint64_t index, ByteReader& in) {
  if (index == kNewName) return names.enter(std::string(in.get_string(kMaxLocationBytes)));
  return names.to_front(index);
}

}  // namespace

void make_writable(std::vector<Location>& locations) {
  for (Location& location : locations) {
    cut_at_nul(location.file);
    cut_at_nul(location.function);
    location.line = std::min(location.line, kMaxLine);
    location.start_column = std::min(location.start_column, kMaxStartColumn);
    location.end_column = std::min(location.end_column, kMaxEndColumn);
  }
  if (locations.size() > kMaxInlined || max_bytes(locations) > kMaxLocationBytes) {
    locations.assign(1, unknown_location());
  }
}

void LocationEncoder::put(ByteWriter& out, std::uint64_t code,
                          std::span<const Location> locations) {
  out.put(code);
  out.put(static_cast<std::uint8_t>(locations.size()));
  for (const Location& location : locations) {
    FileEntry* file = nullptr;
    FunctionEntry* function = nullptr;
    const std::uint64_t file_index = touch(files_, location.file, file);
    const std::uint64_t function_index = touch(file->functions, location.function, function);
    const std::uint64_t word = location.line | std::uint64_t{location.start_column} << kStartShift |
                               std::uint64_t{location.end_column} << kEndShift |
                               file_index << kFileShift | function_index << kFunctionShift;
    out.put(static_cast<std::uint32_t>(word));
    out.put(static_cast<std::uint16_t>(word >> 32));
    if (file_index == kNewName) out.put_string(location.file);
    if (function_index == kNewName) out.put_string(location.function);
  }
}

bool LocationDecoder::get_one(ByteReader& in, Location& location) {
  const std::uint64_t low = in.get<std::uint32_t>();
  const std::uint64_t word = std::uint64_t{in.get<std::uint16_t>()} << 32 | low;
  location.line = static_cast<std::uint32_t>(word & kMaxLine);
  location.start_column = static_cast<std::uint32_t>(word >> kStartShift & kMaxStartColumn);
  location.end_column = static_cast<std::uint32_t>(word >> kEndShift & kMaxEndColumn);
  FileEntry& file = read_name(files_, word >> kFileShift & kNewName, in);
  const FunctionEntry& function = read_name(file.functions, word >> kFunctionShift & kNewName, in);
  location.file = file.known ? file.name : unknown_location().file;
  location.function = function.known ? function.name : unknown_location().function;
  return file.known && function.known;
}

LocationDecoder::Decoded LocationDecoder::get(std::span<const std::byte> body) {
  ByteReader in(body);
  Decoded decoded{.code = in.get<std::uint64_t>()};
  locations_.resize(in.get<std::uint8_t>());
  for (Location& location : locations_) {
    if (!get_one(in, location)) decoded.complete = false;
  }
  decoded.locations = locations_;
  return decoded;
}

}  // namespace memprofd::ctf
