// SPDX-License-Identifier: Apache-2.0
#include "daemon/ctl/snapshot/whole_image.h"

#include "daemon/snapshot/file/heap_file_reader.h"
#include "daemon/snapshot/types/assign_types.h"
#include "daemon/snapshot/types/source_files.h"
#include "daemon/util/status_macros.h"

namespace memprofd::ctl {

namespace {

absl::Status not_whole(const std::string& path) {
  return absl::InvalidArgumentError(
      path + " is truncated or damaged, and its roots are lost; only memprofctl " +
      "snapshot show can read the rest; take another snapshot");
}

}  // namespace

// Roots come last in the file; without them everything would seem to be garbage.
absl::StatusOr<HeapImage> read_whole_image(const std::string& path,
                                           const std::vector<std::string>& cmt) {
  ASSIGN_OR_RETURN(HeapImage image, read_heap_image(path));
  if (!image.info.complete) return not_whole(path);
  RETURN_IF_ERROR(add_types(image, cmt));
  return image;
}

absl::StatusOr<HeapImage> read_whole_tables(const std::string& path) {
  ASSIGN_OR_RETURN(HeapImage image, read_heap_tables(path));
  if (!image.info.complete) return not_whole(path);
  return image;
}

absl::Status add_types(HeapImage& image, const std::vector<std::string>& cmt) {
  SourceFiles files(image.info.program, image.info.ocaml_version, {}, BuildProof::of(image));
  for (const std::string& path : cmt) RETURN_IF_ERROR(files.add(path));
  assign_types(image, [&](const std::string& unit) { return files.find(unit); });
  const TypingResult& found = image.types_found;
  if (cmt.empty() || found.modules != 0 || found.by_site != 0) return absl::OkStatus();
  if (!found.other_builds.empty()) {
    return absl::NotFoundError("the .cmi and .cmt files of " + found.other_builds[0] + " in " +
                               cmt[0] + " are of another build than " + image.info.program);
  }
  return absl::NotFoundError("no .cmi or .cmt file in " + cmt[0] + " is of a module of " +
                             image.info.program + " and of OCaml " + image.info.ocaml_version);
}

}  // namespace memprofd::ctl
