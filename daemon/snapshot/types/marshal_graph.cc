// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/marshal_graph.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "daemon/snapshot/block_header.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

absl::Status damaged() { return absl::InvalidArgumentError("damaged marshalled data"); }

constexpr std::uint32_t kSmall = 0x8495A6BE, kBig = 0x8495A6BF, kCompressed = 0x8495A6BD;

// Numbers of the format are big-endian. After the end of the bytes, reads return zeros and count as
// failed.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes), size_(bytes.size()) {}

  std::uint64_t number(int bytes) {
    std::uint64_t value = 0;
    for (const char byte : take(static_cast<std::uint64_t>(bytes))) {
      value = value << 8 | static_cast<unsigned char>(byte);
    }
    return value;
  }
  // Reads seven bits per byte.
  std::uint64_t short_number() {
    std::uint64_t value = 0;
    for (int i = 0; i < 9; ++i) {
      const std::uint64_t byte = number(1);
      value = value << 7 | (byte & 0x7f);
      if (byte < 0x80) return value;
    }
    failed_ = true;
    return 0;
  }
  std::string_view take(std::uint64_t bytes) {
    if (bytes > rest_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  std::string_view rest() const { return rest_; }
  std::uint64_t used() const { return size_ - rest_.size(); }
  bool failed() const { return failed_; }
  void fail() { failed_ = true; }

 private:
  std::string_view rest_;
  std::size_t size_;
  bool failed_ = false;
};

struct Header {
  std::uint64_t bytes = 0;       // size of the header itself
  std::uint64_t data_bytes = 0;  // size of the data after the header
  std::uint64_t plain_bytes = 0;
  bool compressed = false;
};

absl::StatusOr<Header> read_header(std::string_view all) {
  Bytes bytes(all);
  Header header;
  const std::uint64_t magic = bytes.number(4);
  if (magic == kSmall) {
    header.data_bytes = header.plain_bytes = bytes.number(4);
    bytes.take(12);
    header.bytes = bytes.used();
  } else if (magic == kBig) {
    bytes.take(4);
    header.data_bytes = header.plain_bytes = bytes.number(8);
    bytes.take(16);
    header.bytes = bytes.used();
  } else if (magic == kCompressed) {
    header.compressed = true;
    header.bytes = bytes.number(1) & 0x3f;
    header.data_bytes = bytes.short_number();
    header.plain_bytes = bytes.short_number();
    if (header.bytes < bytes.used()) bytes.fail();
  } else {
    return absl::InvalidArgumentError("no marshalled data");
  }
  const bool is_whole =
      header.bytes <= all.size() && header.data_bytes <= all.size() - header.bytes;
  if (bytes.failed() || !is_whole) return damaged();
  if (header.plain_bytes > MarshalGraph::kMaxBytes) {
    return absl::ResourceExhaustedError("marshalled data of more than 128 MiB");
  }
  return header;
}

absl::StatusOr<std::string> decompressed(std::string_view data, std::uint64_t bytes) {
  // Zstandard expands a byte to at most 128 KiB.
  if (bytes / (128 << 10) > data.size()) return damaged();
  std::string plain(bytes, '\0');
  const std::size_t made = ZSTD_decompress(plain.data(), plain.size(), data.data(), data.size());
  if (ZSTD_isError(made) != 0 || made != bytes) return damaged();
  return plain;
}

}  // namespace

// Objects are numbered in the order in which they begin. A shared one is named by its distance, or
// in compressed data by its number.
class MarshalReader {
 public:
  MarshalReader(std::string_view data, bool is_by_number)
      : bytes_(data), is_by_number_(is_by_number) {}

  absl::StatusOr<MarshalGraph> read() {
    graph_.root_ = one_value();
    while (!open_.empty() && !bytes_.failed()) {
      Open& block = open_.back();
      if (block.left == 0) {
        open_.pop_back();
        continue;
      }
      --block.left;
      const std::uint64_t cell = block.cell++;  // one_value() may move open_
      graph_.cells_[cell] = one_value();
    }
    if (bytes_.failed()) return damaged();
    graph_.cells_.shrink_to_fit();
    return std::move(graph_);
  }

 private:
  struct Open {
    std::uint64_t cell = 0;  // index of the next field
    std::uint64_t left = 0;
  };
  static std::uint64_t integer(std::int64_t value) {
    return static_cast<std::uint64_t>(value) << 1 | 1;
  }

  std::uint64_t one_value() {
    const auto code = static_cast<unsigned>(bytes_.number(1));
    if (code >= 0x80) return block(code & 0xf, code >> 4 & 7);
    if (code >= 0x40) return integer(code & 0x3f);
    if (code >= 0x20) return text(code & 0x1f);
    switch (code) {
      case 0x00:
        return integer(static_cast<std::int8_t>(bytes_.number(1)));
      case 0x01:
        return integer(static_cast<std::int16_t>(bytes_.number(2)));
      case 0x02:
        return integer(static_cast<std::int32_t>(bytes_.number(4)));
      case 0x03:
        return integer(static_cast<std::int64_t>(bytes_.number(8)));
      case 0x04:
        return shared(bytes_.number(1));
      case 0x05:
        return shared(bytes_.number(2));
      case 0x06:
        return shared(bytes_.number(4));
      case 0x14:
        return shared(bytes_.number(8));
      case 0x08:
        return block_with_header(bytes_.number(4));
      case 0x13:
        return block_with_header(bytes_.number(8));
      case 0x09:
        return text(bytes_.number(1));
      case 0x0a:
        return text(bytes_.number(4));
      case 0x15:
        return text(bytes_.number(8));
      default:
        return number_value(code);
    }
  }
  // Values that are counted but irrelevant for types: floats and custom blocks.
  std::uint64_t number_value(unsigned code) {
    switch (code) {
      case 0x0b:
      case 0x0c:
        return skipped(8, kFloatTag);
      case 0x0d:
      case 0x0e:
        return floats(bytes_.number(1));
      case 0x0f:
      case 0x07:
        return floats(bytes_.number(4));
      case 0x16:
      case 0x17:
        return floats(bytes_.number(8));
      case 0x12:
      case 0x18:
      case 0x19:
        return custom(code);
      default:
        return failed();  // code, and pointers into it
    }
  }

  std::uint64_t failed() {
    bytes_.fail();
    return 1;
  }
  std::uint64_t new_object(std::uint64_t size, unsigned tag) {
    const std::uint64_t word = graph_.cells_.size() << 1;
    objects_.push_back(word);
    graph_.cells_.push_back(MarshalGraph::header(size, tag));
    return word;
  }
  std::uint64_t block_with_header(std::uint64_t header) {
    return block(tag_of(header), fields_of(header));
  }
  std::uint64_t block(unsigned tag, std::uint64_t size) {
    if (size == 0) return integer_of_atom(tag);
    // Each field takes at least a byte.
    if (tag >= kNoScanTag || size > bytes_.rest().size()) return failed();
    const std::uint64_t word = new_object(size, tag);
    open_.push_back({graph_.cells_.size(), size});
    graph_.cells_.resize(graph_.cells_.size() + size, 1);
    return word;
  }
  // A block without fields is not an object.
  std::uint64_t integer_of_atom(unsigned tag) {
    if (tag == 0) return 0;
    graph_.cells_.push_back(MarshalGraph::header(0, tag));
    return (graph_.cells_.size() - 1) << 1;
  }
  std::uint64_t text(std::uint64_t size) {
    const std::string_view characters = bytes_.take(size);
    if (bytes_.failed()) return 1;
    const std::uint64_t word = new_object(size, kStringTag);
    const std::size_t at = graph_.cells_.size();
    graph_.cells_.resize(at + (size + 7) / 8);
    if (size != 0) std::memcpy(&graph_.cells_[at], characters.data(), size);
    return word;
  }
  std::uint64_t floats(std::uint64_t count) {
    return count > bytes_.rest().size() ? failed() : skipped(8 * count, kFloatArrayTag);
  }
  std::uint64_t skipped(std::uint64_t bytes, unsigned tag) {
    bytes_.take(bytes);
    return new_object(0, tag);
  }
  std::uint64_t custom(unsigned code) {
    const std::size_t end = bytes_.rest().find('\0');
    if (end == std::string_view::npos) return failed();
    const std::string_view name = bytes_.take(end + 1).substr(0, end);
    if (code == 0x18) {
      bytes_.take(4);
      return skipped(bytes_.number(8), kCustomTag);
    }
    if (name == "_i") return skipped(4, kCustomTag);
    if (name == "_j") return skipped(8, kCustomTag);
    if (name == "_n") return skipped(bytes_.number(1) == 1 ? 4 : 8, kCustomTag);
    return failed();
  }
  std::uint64_t shared(std::uint64_t stored) {
    const std::uint64_t number = is_by_number_ ? stored : objects_.size() - stored;
    return number < objects_.size() ? objects_[number] : failed();
  }

  Bytes bytes_;
  const bool is_by_number_;
  MarshalGraph graph_;
  std::vector<std::uint64_t> objects_;
  std::vector<Open> open_;
};

int MarshalValue::tag() const {
  return is_block() ? static_cast<int>(graph_->cells_[word_ >> 1] & 0xff) : -1;
}

std::uint64_t MarshalValue::size() const {
  if (!is_block()) return 0;
  const std::uint64_t header = graph_->cells_[word_ >> 1];
  return (header & 0xff) < kNoScanTag ? header >> 8 : 0;
}

MarshalValue MarshalValue::field(std::uint64_t index) const {
  if (index >= size()) return {};
  return {graph_, graph_->cells_[(word_ >> 1) + 1 + index]};
}

std::string_view MarshalValue::text() const {
  if (tag() != static_cast<int>(kStringTag)) return {};
  const std::uint64_t* cell = &graph_->cells_[word_ >> 1];
  return {reinterpret_cast<const char*>(cell + 1), *cell >> 8};
}

absl::StatusOr<std::size_t> MarshalGraph::size_of(std::string_view bytes) {
  ASSIGN_OR_RETURN(const Header header, read_header(bytes));
  return header.bytes + header.data_bytes;
}

absl::StatusOr<MarshalGraph> MarshalGraph::read(std::string_view bytes) {
  ASSIGN_OR_RETURN(const Header header, read_header(bytes));
  const std::string_view data = bytes.substr(header.bytes, header.data_bytes);
  if (!header.compressed) return MarshalReader(data, false).read();
  ASSIGN_OR_RETURN(const std::string plain, decompressed(data, header.plain_bytes));
  return MarshalReader(plain, true).read();
}

}  // namespace memprofd
