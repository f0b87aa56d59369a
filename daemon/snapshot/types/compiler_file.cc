// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/compiler_file.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "daemon/runtime/runtime_abi.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

constexpr std::string_view kMagic = "Caml1999";
constexpr std::size_t kMagicBytes = 12;

// Fields of Cmt_format.cmt_infos.
constexpr std::uint64_t kAnnotations = 1, kBuildFolder = 6, kLoadPath = 7, kImports = 10,
                        kInterfaceDigest = 11;
constexpr int kImplementation = 1;  // of binary_annots

// The number after a magic with this letter; 0: it is another magic.
int format_at(std::string_view bytes, char letter) {
  const bool is_magic =
      bytes.size() >= kMagicBytes && bytes.starts_with(kMagic) && bytes[kMagic.size()] == letter;
  int format = 0;
  if (is_magic) std::from_chars(&bytes[kMagic.size() + 1], &bytes[kMagicBytes - 1] + 1, format);
  return format;
}

absl::Status check_format(int format) {
  if (typed_tree_of(format) != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("of an unknown compiler (magic number ", format, ")"));
}

// Removes the value from the front and returns it.
absl::StatusOr<std::string_view> take_value(std::string_view& bytes) {
  ASSIGN_OR_RETURN(const std::size_t size, MarshalGraph::size_of(bytes));
  const std::string_view value = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return value;
}

void add_folders(MarshalValue list, std::vector<std::string>& folders) {
  for_each_in_list(list, [&](MarshalValue folder) { folders.emplace_back(folder.text()); });
}

}  // namespace

int compiler_format_of(std::string_view ocaml_version) {
  const absl::StatusOr<RuntimeAbi> abi = runtime_abi_for(ocaml_version);
  if (!abi.ok() || !check_capability(*abi, Capability::kTypes).ok()) return 0;
  return abi->typed_tree.format;
}

absl::StatusOr<CompilerFile> CompilerFile::parse(std::string_view bytes) {
  CompilerFile file;
  file.format = format_at(bytes, 'I');
  if (file.format != 0) {
    RETURN_IF_ERROR(check_format(file.format));
    bytes.remove_prefix(kMagicBytes);
    ASSIGN_OR_RETURN(const std::string_view value, take_value(bytes));
    ASSIGN_OR_RETURN(file.interface, MarshalGraph::read(value));
    ASSIGN_OR_RETURN(const std::string_view imports, take_value(bytes));
    ASSIGN_OR_RETURN(file.imports, MarshalGraph::read(imports));
    RETURN_IF_ERROR(take_value(bytes).status());  // flags
    if (bytes.empty()) return file;
  }
  const int format = format_at(bytes, 'T');
  if (format == 0) return absl::InvalidArgumentError("no .cmi or .cmt file");
  RETURN_IF_ERROR(check_format(format));
  file.format = format;
  bytes.remove_prefix(kMagicBytes);
  ASSIGN_OR_RETURN(file.implementation, MarshalGraph::read(bytes));
  return file;
}

MarshalValue CompilerFile::signature() const {
  return interface ? interface->root().field(1) : MarshalValue();
}

MarshalValue CompilerFile::structure() const {
  if (!implementation) return {};
  const MarshalValue annotations = implementation->root().field(kAnnotations);
  return annotations.is(kImplementation) ? annotations.field(0) : MarshalValue();
}

std::vector<std::string> CompilerFile::load_path() const {
  std::vector<std::string> folders;
  if (!implementation) return folders;
  const MarshalValue path = implementation->root().field(kLoadPath);
  // Since 5.2: { visible; hidden }, both lists.
  const bool is_list = path.field(0).is(kStringTag);
  add_folders(is_list ? path : path.field(0), folders);
  if (!is_list) add_folders(path.field(1), folders);
  return folders;
}

// An interface is the first of its own imports. An implementation contains its own digest if it has
// no interface file, and otherwise imports it.
bool CompilerFile::is_of(const std::string& unit, const InterfaceDigests& program) const {
  const auto own = program.find(unit);
  if (own == program.end()) return false;
  bool has_own = false, is_of_program = true;
  const auto compare = [&](std::string_view name, std::string_view digest) {
    const auto linked = program.find(std::string(name));
    if (digest.empty() || linked == program.end()) return;
    if (linked->second != digest) is_of_program = false;
    if (linked == own) has_own = true;
  };
  const auto compare_all = [&](MarshalValue list) {
    for_each_in_list(list, [&](MarshalValue import) {
      compare(import.field(0).text(), import.field(1).field(0).text());
    });
  };
  if (imports) compare_all(imports->root());
  if (implementation) {
    compare_all(implementation->root().field(kImports));
    compare(unit, implementation->root().field(kInterfaceDigest).field(0).text());
  }
  return has_own && is_of_program;
}

std::string CompilerFile::build_folder() const {
  return implementation ? std::string(implementation->root().field(kBuildFolder).text()) : "";
}

}  // namespace memprofd
