// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshot/types/source_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/util/read_at.h"
#include "daemon/util/regular_file.h"
#include "daemon/util/status_macros.h"

namespace memprofd {
namespace {

namespace fs = std::filesystem;

constexpr int kDepth = 16;  // maximum nesting of folders

// The compiler writes Cache.cmt or cache.cmt, depending on the name of the source.
std::string key_of(std::string name) {
  if (!name.empty()) name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
  return name;
}

bool is_of_compiler(const fs::path& path) {
  const fs::path ending = path.extension();
  return ending == ".cmt" || ending == ".cmi";
}

}  // namespace

BuildProof BuildProof::of(const HeapImage& image) {
  const auto is_of_plugin = [](const RootName& name) {
    return name.kind == RootKind::kDynamicGlobal;
  };
  return {.interfaces = image.interfaces,
          .has_plugins = std::ranges::any_of(image.root_names, is_of_plugin)};
}

SourceFiles::SourceFiles(std::string program, const std::string& ocaml_version, SourceRights rights,
                         BuildProof build)
    : program_(std::move(program)),
      format_(compiler_format_of(ocaml_version)),
      rights_(rights),
      build_(std::move(build)) {}

absl::StatusOr<UniqueFd> SourceFiles::open(const std::string& path, Origin origin) const {
  if (!rights_.user) return open_regular_file(path, path);
  return open_as_user(path, origin == kGiven ? std::nullopt : rights_.user);
}

// Follows links, because those on the path to a given place are the user's own.
absl::StatusOr<std::string> SourceFiles::place_at(const std::string& path) {
  std::error_code error;
  std::string origin = fs::canonical(path, error);
  if (!error) return origin;
  return absl::NotFoundError("there is no " + path + " to search .cmt and .cmi files in");
}

absl::Status SourceFiles::add(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string origin, place_at(path));
  std::error_code error;
  fs::is_directory(origin, error) ? add_folder(origin, kGiven, kDepth) : add_file(origin, kGiven);
  return absl::OkStatus();
}

void SourceFiles::add_file(const std::string& path, Origin origin) {
  const fs::path as_path(path);
  if (is_of_compiler(as_path)) files_[key_of(as_path.filename())].emplace(origin, path);
}

// Files of the compiler, and folders, sorted so that the result does not depend on the file system.
// Links to folders are not followed, so that the search ends.
std::vector<SourceFiles::Entry> SourceFiles::list(const std::string& folder, Origin origin,
                                                  bool with_folders) {
  std::vector<Entry> entries;
  UniqueFd opened;
  std::string seen = folder;
  if (rights_.user) {
    auto of_user = open(folder, origin);
    if (!of_user.ok()) return entries;
    opened = *std::move(of_user);
    seen = absl::StrCat("/proc/self/fd/", opened.get());
  }
  std::error_code error;
  for (fs::directory_iterator at(seen, error), end; !error && at != end; at.increment(error)) {
    if (++entries_ > kMaxEntries) break;
    std::error_code unknown;
    const bool is_folder = at->is_directory(unknown);
    if (is_folder && (!with_folders || at->is_symlink(unknown))) continue;
    if (is_folder || is_of_compiler(at->path())) {
      entries.push_back({at->path().filename(), is_folder});
    }
  }
  std::ranges::sort(entries);
  return entries;
}

// A depth of 0 omits subfolders.
void SourceFiles::add_folder(const std::string& folder, Origin origin, int depth) {
  if (depth == 0 && !folders_.insert(folder).second) return;
  for (const Entry& entry : list(folder, origin, depth > 0)) {
    const std::string path = fs::path(folder) / entry.name;
    entry.is_folder ? add_folder(path, origin, depth - 1) : add_file(path, origin);
  }
}

void SourceFiles::add_usual_places() {
  if (std::exchange(has_usual_places_, true)) return;
  const fs::path program(program_);
  if (program.is_absolute()) {
    add_folder(program.parent_path(), kProgram, 0);
    for (fs::path above = program.parent_path(); above != above.root_path();
         above = above.parent_path()) {
      if (above.filename() != "default" || above.parent_path().filename() != "_build") continue;
      add_folder(above, kProgram, kDepth);
      break;
    }
    // SWITCH/bin/program of opam, /usr/local/bin/program.
    const fs::path prefix = program.parent_path().parent_path();
    if (program.parent_path().filename() == "bin" && prefix != "/usr") {
      add_folder(prefix / "lib", kLibraries, kDepth);
    }
  }
  for (const char* folder : {"/usr/lib/ocaml", "/usr/lib/x86_64-linux-gnu/ocaml",
                             "/usr/lib/aarch64-linux-gnu/ocaml", "/usr/local/lib/ocaml"}) {
    add_folder(folder, kLibraries, kDepth);
  }
  if (const char* of_switch = std::getenv("OPAM_SWITCH_PREFIX")) {
    add_folder(std::string(of_switch) + "/lib", kLibraries, kDepth);
  }
}

void SourceFiles::add_load_path(const CompilerFile& file) {
  const fs::path build(file.build_folder());
  for (const std::string& folder : file.load_path()) {
    if (folders_.size() >= kMaxFolders || (folder.empty() && build.empty())) return;
    add_folder((build / folder).lexically_normal(), kLoadPath, 0);
  }
}

SourceUnit SourceFiles::find(const std::string& name) {
  const auto [at, is_new] = units_.try_emplace(name);
  if (is_new) {
    at->second = std::make_unique<Unit>();
    Unit& unit = *at->second;
    if (format_ != 0) {
      add_usual_places();
      unit.implementation = read_first(name, ".cmt", unit);
      // An implementation without an interface file contains its interface.
      if (unit.implementation && unit.implementation->interface) {
        unit.interface.emplace().interface = std::move(unit.implementation->interface);
        unit.interface->format = unit.implementation->format;
      } else {
        unit.interface = read_first(name, ".cmi", unit);
      }
      if (unit.implementation) add_load_path(*unit.implementation);
    }
  }
  const Unit& unit = *units_.find(name)->second;
  const bool is_found = unit.interface || unit.implementation;
  return {.interface = unit.interface ? &*unit.interface : nullptr,
          .implementation = unit.implementation ? &*unit.implementation : nullptr,
          .is_of_other_build = !is_found && unit.is_of_other_build,
          .is_unverified = is_found && !is_verifiable(name)};
}

// A unit that the program's list lacks is not part of it, or was loaded at run time.
bool SourceFiles::is_verifiable(const std::string& unit) const {
  if (build_.interfaces.empty()) return false;
  return !build_.has_plugins || build_.interfaces.contains(unit);
}

std::optional<CompilerFile> SourceFiles::read_first(const std::string& name, const char* ending,
                                                    Unit& unit) {
  const auto found = files_.find(key_of(name) + ending);
  if (found == files_.end()) return std::nullopt;
  for (const auto& [origin, path] : found->second) {
    std::optional<CompilerFile> file = read(path, origin);
    if (!file || file->format != format_) continue;
    if (!is_verifiable(name) || file->is_of(name, build_.interfaces)) return file;
    unit.is_of_other_build = true;
  }
  return std::nullopt;
}

std::optional<CompilerFile> SourceFiles::read(const std::string& path, Origin origin) {
  if (memory_ > rights_.most_memory) return std::nullopt;
  auto file = open(path, origin);
  struct ::stat status {};
  if (!file.ok() || ::fstat(file->get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > kMaxFileBytes || size > kMaxBytes - bytes_) return std::nullopt;
  std::string bytes(size, '\0');
  if (!read_at(file->get(), 0, std::as_writable_bytes(std::span(bytes))).ok()) return std::nullopt;
  bytes_ += size;
  auto parsed = CompilerFile::parse(bytes);
  if (!parsed.ok()) return std::nullopt;
  if (parsed->interface) memory_ += parsed->interface->bytes();
  if (parsed->implementation) memory_ += parsed->implementation->bytes();
  if (parsed->imports) memory_ += parsed->imports->bytes();
  return *std::move(parsed);
}

}  // namespace memprofd
