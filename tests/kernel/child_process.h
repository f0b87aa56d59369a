// SPDX-License-Identifier: Apache-2.0
// A bundled target as a child process with its pipes, for C++ end-to-end tests.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace memprofd {

class ChildProcess {
 public:
  // environment: NAME=VALUE pairs added to ours. Ready when constructed: the
  // target's first line ("ready ...") has been read.
  explicit ChildProcess(const std::vector<std::string>& command,
                        const std::vector<std::string>& environment = {}) {
    int to_child[2], from_child[2];
    if (pipe(to_child) != 0 || pipe(from_child) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to_child[0], 0);
      dup2(from_child[1], 1);
      for (int fd : {to_child[0], to_child[1], from_child[0], from_child[1]}) close(fd);
      for (const auto& variable : environment) putenv(const_cast<char*>(variable.c_str()));
      std::vector<char*> argv;
      for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(to_child[0]);
    close(from_child[1]);
    in_ = fdopen(to_child[1], "w");
    out_ = fdopen(from_child[0], "r");
    first_line_ = read_line();
  }
  ~ChildProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    fclose(in_);
    fclose(out_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  int pid() const { return pid_; }
  const std::string& first_line() const { return first_line_; }
  std::string ask(const std::string& line) {
    std::fprintf(in_, "%s\n", line.c_str());
    std::fflush(in_);
    return read_line();
  }
  // Sends "exit" and waits for the end; answers with the exit status of waitpid.
  int finish() {
    std::fprintf(in_, "exit\n");
    std::fflush(in_);
    while (!read_line().empty()) {
    }
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  std::string read_line() {
    std::string line;
    for (int c; (c = std::fgetc(out_)) != EOF && c != '\n';) line += static_cast<char>(c);
    return line;
  }

  pid_t pid_ = -1;
  FILE* in_ = nullptr;
  FILE* out_ = nullptr;
  std::string first_line_;
};

inline std::string build_path(const std::string& name) {
  const char* build = std::getenv("MEMPROFD_BUILD");
  return std::string(build ? build : "build") + "/" + name;
}

// A program to profile, of the OCaml that MEMPROFD_TARGETS stands for.
inline std::string target_path(const std::string& name) {
  const char* targets = std::getenv("MEMPROFD_TARGETS");
  return targets ? std::string(targets) + "/" + name : build_path("targets/" + name);
}

// The same of OCaml 5: of MEMPROFD_TARGETS when it has that, else of Debian 13.
inline std::string target5_path(const std::string& name) {
  const bool has5 = std::filesystem::exists(target_path("domains"));
  return has5 ? target_path(name) : build_path("targets-trixie/" + name);
}

}  // namespace memprofd
