// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/answers/chrome_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/snapshot/answers/block_class.h"
#include "daemon/snapshot/answers/root_tree.h"
#include "daemon/snapshot/answers/shortest_paths.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

// Number of values per node and per edge, and indices into the lists of types.
constexpr std::uint64_t kNodeFields = 7;
constexpr std::uint64_t kEdgeFields = 3;
constexpr int kObject = 3, kSynthetic = 9;
constexpr int kElement = 1, kProperty = 2, kInternal = 3;

constexpr char kMeta[] =
    R"("meta":{"node_fields":["type","name","id","self_size","edge_count","trace_node_id",)"
    R"("detachedness"],"node_types":[["hidden","array","string","object","code","closure",)"
    R"("regexp","number","native","synthetic","concatenated string","sliced string","symbol",)"
    R"("bigint","object shape"],"string","number","number","number","number","number"],)"
    R"("edge_fields":["type","name_or_index","to_node"],"edge_types":[["context","element",)"
    R"("property","internal","hidden","shortcut","weak"],"string_or_number","node"],)"
    R"("trace_function_info_fields":["function_id","name","script_name","script_id","line",)"
    R"("column"],"trace_node_fields":["id","function_info_index","count","size","children"],)"
    R"("sample_fields":["timestamp_us","last_assigned_id"],"location_fields":["object_index",)"
    R"("script_id","line","column"]})";

// Buffers the output; writes nothing more after an error.
class Text {
 public:
  explicit Text(const std::function<absl::Status(std::string_view)>& write) : write_(write) {}

  template <typename... Parts>
  void add(fmt::format_string<Parts...> format, Parts&&... parts) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Parts>(parts)...);
    if (buffer_.size() >= kPiece) (void)finish();
  }
  absl::Status finish() {
    if (status_.ok()) status_ = write_({buffer_.data(), buffer_.size()});
    buffer_.clear();
    return status_;
  }

 private:
  static constexpr std::size_t kPiece = 64 * 1024;

  const std::function<absl::Status(std::string_view)>& write_;
  fmt::memory_buffer buffer_;
  absl::Status status_;
};

// Nodes are the tree of roots, then the reachable blocks in order.
class Writer {
 public:
  Writer(const HeapImage& image, const std::function<absl::Status(std::string_view)>& write)
      : image_(image), classes_(image), tree_(make_root_tree(image)), out_(write) {
    number_blocks();
    gather_roots();
  }

  absl::StatusOr<ChromeSnapshotSize> run() {
    RETURN_IF_ERROR(check());
    out_.add(R"({{"snapshot":{{{},"node_count":{},"edge_count":{},"trace_function_count":0}},)",
             kMeta, nodes_, edges_);
    write_nodes();
    write_edges();
    out_.add("{}", R"("trace_function_infos":[],"trace_tree":[],"samples":[],"locations":[],)");
    write_strings();
    RETURN_IF_ERROR(out_.finish());
    const std::uint64_t blocks = nodes_ - tree_.nodes.size();
    return ChromeSnapshotSize{.blocks = blocks, .left_out = image_.blocks() - blocks};
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;

  void number_blocks() {
    const ShortestPaths paths(image_);
    node_of_.assign(image_.blocks(), kNone);
    nodes_ = tree_.nodes.size();
    for (std::uint32_t block = 0; block < image_.blocks(); ++block) {
      if (!paths.is_reachable(block)) continue;
      node_of_[block] = static_cast<std::uint32_t>(nodes_++);
      edges_ += image_.edges.of(block).size();
      largest_words_ = std::max(largest_words_, image_.shape(block).words);
    }
  }
  void gather_roots() {
    below_.resize(tree_.nodes.size());
    held_.resize(tree_.nodes.size());
    for (std::uint32_t node = 1; node < tree_.nodes.size(); ++node) {
      below_[tree_.nodes[node].parent].push_back(node);
    }
    for (const ImageRoot& root : image_.roots) {
      held_[tree_.of_name[root.name]].push_back(root.block);
    }
    edges_ += tree_.nodes.size() - 1 + image_.roots.size();
  }
  absl::Status check() const {
    if (std::max({nodes_ * kNodeFields, edges_ * kEdgeFields, largest_words_ * 8}) <=
        kMaxChromeNumbers) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(
        fmt::format("{} blocks with {} pointers, the largest of {} bytes, exceed Chrome's format "
                    "(32 bits); use memprofctl snapshot retained",
                    nodes_, edges_, largest_words_ * 8));
  }

  // The strings are the names of roots, then of classes, and one for far fields.
  std::uint64_t class_string(std::uint32_t block_class) const {
    return tree_.nodes.size() + block_class;
  }
  std::uint64_t far_string() const { return tree_.nodes.size() + classes_.size(); }

  void write_node(int type, std::uint64_t name, std::uint64_t bytes, std::size_t edges) {
    // Ids are odd; even ones belong to the embedder of the page.
    out_.add("{}{},{},{},{},{},0,0", written_ == 0 ? "\"nodes\":[" : ",\n", type, name,
             2 * written_ + 1, bytes, edges);
    ++written_;
  }
  void write_nodes() {
    for (std::uint32_t node = 0; node < tree_.nodes.size(); ++node) {
      write_node(kSynthetic, node, 0, below_[node].size() + held_[node].size());
    }
    for (std::uint32_t block = 0; block < image_.blocks(); ++block) {
      if (node_of_[block] == kNone) continue;
      write_node(kObject, class_string(classes_.of(block)), image_.shape(block).words * 8,
                 image_.edges.of(block).size());
    }
    out_.add("{}", "],");
  }

  void write_edge(int type, std::uint64_t name_or_index, std::uint64_t to) {
    out_.add("{}{},{},{}", is_first_edge_ ? "\"edges\":[" : ",\n", type, name_or_index,
             to * kNodeFields);
    is_first_edge_ = false;
  }
  void write_edges() {
    if (edges_ == 0) out_.add("{}", "\"edges\":[");
    for (std::uint32_t node = 0; node < tree_.nodes.size(); ++node) {
      for (const std::uint32_t child : below_[node]) write_edge(kProperty, child, child);
      std::uint64_t index = 0;
      for (const std::uint32_t block : held_[node]) write_edge(kElement, index++, node_of_[block]);
    }
    for (std::uint32_t block = 0; block < image_.blocks(); ++block) {
      if (node_of_[block] != kNone) write_edges_of(block);
    }
    out_.add("{}", "],");
  }
  void write_edges_of(std::uint32_t block) {
    for (std::uint64_t i = image_.edges.first[block]; i < image_.edges.first[block + 1]; ++i) {
      const bool is_far = image_.fields[i] == HeapImage::kFarField;
      write_edge(is_far ? kInternal : kElement, is_far ? far_string() : image_.fields[i],
                 node_of_[image_.edges.to[i]]);
    }
  }

  void write_string(const std::string& text) {
    using Json = nlohmann::json;
    out_.add("{}{}", is_first_string_ ? "\"strings\":[" : ",\n",
             Json(text).dump(-1, ' ', true, Json::error_handler_t::replace));
    is_first_string_ = false;
  }
  void write_strings() {
    for (const RootNode& node : tree_.nodes) write_string(node.name);
    for (std::uint32_t i = 0; i < classes_.size(); ++i) write_string(classes_.text(i));
    write_string("a field from 255 on");
    out_.add("{}", "]}\n");
  }

  const HeapImage& image_;
  const BlockClasses classes_;
  const RootTree tree_;
  Text out_;
  std::vector<std::uint32_t> node_of_;             // by block
  std::vector<std::vector<std::uint32_t>> below_;  // by node of the tree: the nodes below it
  std::vector<std::vector<std::uint32_t>> held_;   // the same, blocks
  std::uint64_t nodes_ = 0, edges_ = 0, largest_words_ = 0;
  std::uint64_t written_ = 0;
  bool is_first_edge_ = true, is_first_string_ = true;
};

}  // namespace

absl::StatusOr<ChromeSnapshotSize> write_chrome_snapshot(
    const HeapImage& image, const std::function<absl::Status(std::string_view)>& write) {
  return Writer(image, write).run();
}

}  // namespace memprofd
