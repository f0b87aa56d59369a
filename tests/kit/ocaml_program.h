// SPDX-License-Identifier: Apache-2.0
// Small OCaml programs, compiled and run by tests of discovery.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/kit/temp_dir.h"

namespace memprofd {

// Compiles source as NAME.ml in dir. Returns the program's path, or "" after printing the
// compiler's errors to stderr.
inline std::string compile_ocaml(const TempDir& dir, const std::string& name,
                                 const std::string& source, const std::string& options = "-g") {
  dir.write(name + ".ml", source);
  const std::string command = "cd '" + dir.path() + "' && ocamlfind ocamlopt -package str,unix " +
                              options + " " + name + ".ml -o " + name +
                              ".exe >compiler.log 2>&1 || " + "{ cat compiler.log >&2; false; }";
  return std::system(command.c_str()) == 0 ? dir.path(name + ".exe") : "";
}

// A child process that is killed at the end of the test. Its stdin stays open, and its stdout can
// be read by line.
class Child {
 public:
  explicit Child(const std::vector<std::string>& command) {
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    if (::pipe(in) != 0 || ::pipe(out) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      for (const int fd : {in[0], in[1], out[0], out[1]}) ::close(fd);
      std::vector<char*> argv;
      for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    stdin_ = in[1];
    stdout_ = ::fdopen(out[0], "r");
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    finish();
    ::close(stdin_);
    std::fclose(stdout_);
  }

  int pid() const { return pid_; }
  // Blocks until a line is complete; returns "" at the end of the output.
  std::string read_line() {
    char* line = nullptr;
    std::size_t size = 0;
    const ssize_t n = ::getline(&line, &size, stdout_);
    std::string text = n > 0 ? std::string(line, static_cast<std::size_t>(n - 1)) : std::string();
    std::free(line);
    return text;
  }
  void write_line(std::string line) {
    line += '\n';
    if (::write(stdin_, line.data(), line.size()) < 0) std::abort();
  }
  // Kills and reaps the process.
  void finish() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Kills it and leaves a zombie.
  void make_zombie() {
    ::kill(pid_, SIGKILL);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  pid_t pid_ = -1;
  int stdin_ = -1;
  FILE* stdout_ = nullptr;
};

}  // namespace memprofd
