// SPDX-License-Identifier: Apache-2.0
// Compiles OCaml source in its own folder with the installed compiler, and gives the types of the
// resulting .cmt files to heap images.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>

#include "daemon/snapshot/types/assign_types.h"
#include "daemon/snapshot/types/source_files.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {

class CompiledSource {
 public:
  // program: name of the .ml file without its suffix. files: name and text, in the order in which
  // they are compiled.
  CompiledSource(std::string program,
                 std::initializer_list<std::pair<std::string, std::string>> files,
                 const std::string& options = "")
      : program_(std::move(program)) {
    std::string command =
        "cd '" + dir_.path() + "' && ocamlfind ocamlc -bin-annot " + options + " -c";
    for (const auto& [name, text] : files) {
      dir_.write(name, text);
      command += " " + name;
    }
    EXPECT_EQ(0, std::system((command + " 2>&1 && ocamlc -version > version").c_str()));
  }

  std::string program() const { return dir_.path(program_); }

  void give_types_to(HeapImage& image) const {
    image.info.program = program();
    std::ifstream(dir_.path("version")) >> image.info.ocaml_version;
    SourceFiles files(image.info.program, image.info.ocaml_version);
    assign_types(image, [&](const std::string& unit) { return files.find(unit); });
  }

 private:
  TempDir dir_;
  const std::string program_;
};

}  // namespace memprofd
