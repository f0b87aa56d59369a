// SPDX-License-Identifier: Apache-2.0
// Finds and reads the .cmi and .cmt files of a program's modules, only those of its own build: of
// its compiler's release, and with the interface that the program was linked with. Search order:
// the given places, beside the program and in dune's _build/default above it, the folders in which
// the compiler of the found files searched, and the library folders of opam and Debian.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/snapshot/types/source_modules.h"
#include "daemon/util/fd.h"

namespace memprofd {

// Restricts readers that have more rights than the users who may have created the files, or who see
// the answer.
struct SourceRights {
  // A user who owns no file and may read only what everybody may.
  static constexpr uid_t kNobody = ~uid_t{0};

  // No link is followed; outside of given places only files that this user could read are read.
  // Unset: files that this process may read.
  std::optional<uid_t> user = std::nullopt;
  // Approximate limit for the memory of everything that is read; a file uses at most twice
  // MarshalGraph::kMaxBytes.
  std::uint64_t most_memory = ~std::uint64_t{0};
};

// Evidence that files belong to the build of a program.
struct BuildProof {
  InterfaceDigests interfaces = {};  // of its units; empty: no evidence
  // It has loaded units at run time, for which there is no evidence.
  bool has_plugins = false;

  static BuildProof of(const HeapImage& image);
};

class SourceFiles {
 public:
  // program: the path of its executable, which need not be there; empty: not to be looked beside.
  // ocaml_version: "5.3.0".
  SourceFiles(std::string program, const std::string& ocaml_version, SourceRights rights = {},
              BuildProof build = {});
  SourceFiles(const SourceFiles&) = delete;
  SourceFiles& operator=(const SourceFiles&) = delete;

  // Adds a file, or a folder with its contents. kNotFound: it does not exist.
  absl::Status add(const std::string& path);
  // unit: "Stdlib__Hashtbl", as in SourceModules. Skips unreadable files, and those of another
  // build.
  SourceUnit find(const std::string& unit);

  // Resolves a path for add() without links. kNotFound: it does not exist.
  static absl::StatusOr<std::string> place_at(const std::string& path);

 private:
  static constexpr std::size_t kMaxEntries = 500'000;  // of folders that are looked through
  static constexpr std::size_t kMaxFolders = 4'096;    // of load paths
  static constexpr std::uint64_t kMaxFileBytes = 256 << 20;
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{2} << 30;  // of all files that are read

  struct Unit {
    std::optional<CompilerFile> interface, implementation;
    bool is_of_other_build = false;  // files were passed over
  };
  // Search order of the origins.
  enum Origin { kGiven, kProgram, kLoadPath, kLibraries };

  absl::StatusOr<UniqueFd> open(const std::string& path, Origin origin) const;
  void add_usual_places();
  struct Entry {
    std::string name;
    bool is_folder = false;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  std::vector<Entry> list(const std::string& folder, Origin origin, bool with_folders);
  void add_folder(const std::string& folder, Origin origin, int depth);
  void add_file(const std::string& path, Origin origin);
  void add_load_path(const CompilerFile& file);
  bool is_verifiable(const std::string& unit) const;
  std::optional<CompilerFile> read_first(const std::string& name, const char* ending, Unit& unit);
  std::optional<CompilerFile> read(const std::string& path, Origin origin);

  const std::string program_;
  const int format_;
  const SourceRights rights_;
  const BuildProof build_;
  bool has_usual_places_ = false;
  std::size_t entries_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t memory_ = 0;
  // Keyed by name without folder, with a small first letter.
  absl::flat_hash_map<std::string, std::multimap<Origin, std::string>> files_;
  std::set<std::string> folders_;
  absl::flat_hash_map<std::string, std::unique_ptr<Unit>> units_;
};

}  // namespace memprofd
