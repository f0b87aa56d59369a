// SPDX-License-Identifier: Apache-2.0
// A directory for one test, removed with all its files at the end.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace memprofd {

class TempDir {
 public:
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "memprofd-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path() const { return path_.string(); }
  std::string path(std::string_view name) const {
    return (path_ / std::filesystem::path(name)).string();
  }
  // Names of its entries, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  }
  // Creates parent directories as needed. Deletes an existing file of that name first, because some
  // file systems write overwritten files to disk at once.
  std::string write(std::string_view name, std::string_view contents) const {
    const std::string file = path(name);
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::filesystem::remove(file);
    std::ofstream(file, std::ios::binary) << contents;
    return file;
  }
  void link(std::string_view name, const std::string& to) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::filesystem::create_symlink(to, path(name));
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string contents;
  char piece[1 << 16];
  while (in.read(piece, sizeof piece), in.gcount() > 0) {
    contents.append(piece, static_cast<std::size_t>(in.gcount()));
  }
  return contents;
}

}  // namespace memprofd
