// SPDX-License-Identifier: Apache-2.0
#include "daemon/rss/mapping_classes.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "daemon/util/base_name.h"

namespace memprofd {
namespace {

// Programs with more mappings are not classified.
constexpr std::size_t kMaxMappings = 1u << 18;

bool is_agent(const Mapping& mapping) {
  return mapping.path.find("libmemprof_agent") != std::string::npos ||
         mapping.path.starts_with("/memfd:memprof_agent");
}

bool is_shared_memory(std::string_view path) {
  static constexpr std::string_view kPlaces[] = {"/dev/shm/", "/SYSV", "/memfd:", "/dev/zero"};
  return std::ranges::any_of(kPlaces, [&](auto place) { return path.starts_with(place); });
}

bool has_no_rights(const Mapping& mapping) {
  return !mapping.readable && !mapping.writable && !mapping.executable;
}

// Pages of hardware and those that the kernel counts elsewhere are not part of the resident size.
bool is_counted(const Mapping& mapping) {
  return !mapping.path.starts_with("[vvar") && mapping.path != "[vsyscall]" &&
         !mapping.path.starts_with("/anon_hugepage");
}

using FileId = std::pair<std::uint64_t, std::uint64_t>;
FileId file_of(const Mapping& mapping) { return {mapping.device, mapping.inode}; }

class Classifier {
 public:
  Classifier(const std::vector<Mapping>& maps, const std::string& exe, PartNames& names)
      : exe_(exe), names_(names) {
    for (const Mapping& mapping : maps) {
      if (mapping.executable && mapping.inode != 0) libraries_.insert(file_of(mapping));
      has_libc_ |= is_libc(mapping);
    }
  }

  void take(const Mapping& mapping) {
    const RssClass kind = is_counted(mapping) ? class_of(mapping) : RssClass::kKernel;
    std::string name = mapping.path;
    if (mapping.path.empty() && kind == RssClass::kStaticData) name = before_.path;
    if (is_counted(mapping)) {
      out_.layer.add({.begin = mapping.begin,
                      .end = mapping.end,
                      .kind = kind,
                      .name = has_names(kind) ? names_.number_of(name) : 0});
    }
    note(mapping, kind, name);
    // A mapping that continues a library's data passes the library's name to the next one.
    before_ = mapping;
    before_.path = name;
    before_kind_ = kind;
  }

  ClassifiedMappings finish() {
    out_.layer.seal();
    return std::move(out_);
  }

 private:
  static bool is_libc(const Mapping& mapping) {
    const std::string_view name = base_name(mapping.path);
    return name.starts_with("libc.so") || name.starts_with("libc-2.");
  }

  RssClass class_of_file(const Mapping& mapping) const {
    if (is_agent(mapping)) return RssClass::kAgent;
    if (libraries_.contains(file_of(mapping))) {
      if (mapping.executable) return RssClass::kCode;
      return mapping.writable ? RssClass::kStaticData : RssClass::kReadOnlyData;
    }
    return is_shared_memory(mapping.path) ? RssClass::kSharedMemory : RssClass::kMappedFile;
  }

  RssClass class_of(const Mapping& mapping) const {
    if (mapping.inode != 0) return class_of_file(mapping);
    if (mapping.path == "[stack]") return RssClass::kThreadStack;
    if (mapping.path == "[heap]") return RssClass::kMallocUnwalked;
    if (mapping.path.starts_with("[anon")) return RssClass::kOther;
    if (mapping.path.starts_with("[")) return RssClass::kKernel;
    // The rest of a library's data has no bytes in its file.
    const bool continues = mapping.path.empty() && mapping.begin == before_.end &&
                           mapping.writable && before_.writable;
    if (continues && before_kind_ == RssClass::kStaticData) return RssClass::kStaticData;
    if (continues && before_kind_ == RssClass::kAgent) return RssClass::kAgent;
    return has_no_rights(mapping) ? RssClass::kReserved : RssClass::kOther;
  }

  void note(const Mapping& mapping, RssClass kind, const std::string& name) {
    const AddressSpan span{mapping.begin, mapping.end};
    if (mapping.path == "[heap]") out_.break_heap.push_back(span);
    out_.has_main_stack |= mapping.path == "[stack]";
    const bool whole_right = mapping.readable && mapping.writable;
    if (kind == RssClass::kOther && whole_right) {
      out_.anonymous.push_back(span);
      const bool guarded = before_.end == mapping.begin && before_kind_ == RssClass::kReserved;
      if (guarded) out_.guarded.push_back(span);
    }
    if (kind == RssClass::kStaticData && mapping.inode == 0) out_.behind_data.push_back(span);
    Mapping named = mapping;
    named.path = name;
    const bool of_libc = has_libc_ ? is_libc(named) : name == exe_;
    if (kind == RssClass::kStaticData && of_libc) out_.libc_data.push_back(span);
    for (const std::string_view allocator : {"jemalloc", "tcmalloc", "mimalloc"}) {
      if (kind == RssClass::kCode && base_name(name).find(allocator) != std::string_view::npos) {
        out_.other_allocator = allocator;
      }
    }
  }

  const std::string& exe_;
  PartNames& names_;
  absl::flat_hash_set<FileId> libraries_;
  bool has_libc_ = false;
  Mapping before_;
  RssClass before_kind_ = RssClass::kOther;
  ClassifiedMappings out_;
};

}  // namespace

std::uint32_t PartNames::number_of(const std::string& name) {
  const auto [found, fresh] = numbers_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
  if (fresh) names_.push_back(name);
  return found->second;
}

absl::Status check_number(const std::vector<Mapping>& maps, int pid) {
  if (maps.size() <= kMaxMappings) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "pid {} has {} mappings: more than {} are not read", pid, maps.size(), kMaxMappings));
}

ClassifiedMappings classify_mappings(const std::vector<Mapping>& maps, const std::string& exe,
                                     PartNames& names) {
  Classifier classifier(maps, exe, names);
  for (const Mapping& mapping : maps) classifier.take(mapping);
  return classifier.finish();
}

}  // namespace memprofd
