// SPDX-License-Identifier: Apache-2.0
// Location events: the meaning of a code, with names numbered by recency.
//
// Writer and reader keep the same tables: 31 files, most recent first, each with 31 functions. A
// name in its table is written as its index and moves to the front. Any other name is written in
// full and enters at the front; a new file has an empty table of functions.
//
//   b.ml f  ->  31 31 "b.ml" "f"     files: b.ml{f}
//   a.ml g  ->  31 31 "a.ml" "g"     files: a.ml{g} b.ml{f}
//   b.ml h  ->   1 31 "h"            files: b.ml{h f} a.ml{g}
//   b.ml f  ->   0  1                files: b.ml{f h} a.ml{g}
//
// After a loss a reader has no entries but still follows how they move: names that enter later are
// right again, and an index of an older one is recognised as unknown.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/trace/ctf/ctf_bytes.h"
#include "daemon/trace/ctf/ctf_format.h"

namespace memprofd::ctf {

// Entry has a constructor from (std::string name) and a default one for an entry
// that is no longer known.
template <typename Entry>
class RecentNames {
 public:
  std::optional<std::size_t> find(std::string_view name) const {
    const auto at = std::find_if(entries_.begin(), entries_.end(),
                                 [name](const Entry& entry) { return entry.name == name; });
    if (at == entries_.end()) return std::nullopt;
    return static_cast<std::size_t>(at - entries_.begin());
  }
  Entry& to_front(std::size_t index) {
    if (index >= entries_.size()) entries_.resize(index + 1);
    const auto at = entries_.begin() + static_cast<std::ptrdiff_t>(index);
    std::rotate(entries_.begin(), at, at + 1);
    return entries_.front();
  }
  Entry& enter(std::string name) {
    if (entries_.size() < kNameTableEntries) {
      entries_.emplace_back(std::move(name));
    } else {
      entries_.back() = Entry(std::move(name));
    }
    return to_front(entries_.size() - 1);
  }
  // Makes all entries unknown.
  void forget() { entries_.clear(); }

 private:
  // The first places; the others are unknown or empty.
  std::vector<Entry> entries_;
};

struct FunctionEntry {
  FunctionEntry() : known(false) {}
  explicit FunctionEntry(std::string text) : name(std::move(text)) {}
  std::string name;
  bool known = true;
};
struct FileEntry {
  FileEntry() : known(false) {}
  explicit FileEntry(std::string text) : name(std::move(text)) {}
  std::string name;
  bool known = true;
  RecentNames<FunctionEntry> functions;
};

// Converts locations to the form that a reader will get: names end before a NUL, too large numbers
// become the maximum. Locations that do not fit in one event become one unknown location.
void make_writable(std::vector<Location>& locations);

class LocationEncoder {
 public:
  // out has room for kMaxLocationBytes, locations have been made writable.
  void put(ByteWriter& out, std::uint64_t code, std::span<const Location> locations);
  // From now on names are written in full again.
  void forget() { files_.forget(); }

 private:
  RecentNames<FileEntry> files_;
};

class LocationDecoder {
 public:
  struct Decoded {
    std::uint64_t code = 0;
    std::span<const Location> locations;  // until the next get
    // False if some names were written before the last loss; they read as the unknown location's.
    bool complete = true;
  };
  // body comes from get_event.
  Decoded get(std::span<const std::byte> body);
  void forget() { files_.forget(); }

 private:
  bool get_one(ByteReader& in, Location& location);

  RecentNames<FileEntry> files_;
  std::vector<Location> locations_;
};

}  // namespace memprofd::ctf
