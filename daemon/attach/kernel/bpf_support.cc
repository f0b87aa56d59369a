// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/kernel/bpf_support.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "daemon/attach/kernel/kernel_features.h"
#include "daemon/util/log.h"
#include "daemon/util/open_files.h"

namespace memprofd {
namespace {

constexpr std::size_t kMaxMessageBytes = 1u << 20;  // a log of the verifier; longer ones are
                                                    // truncated

constexpr std::size_t kReasonLines = 4;
// libbpf writes the verifier's messages between these lines.
constexpr std::string_view kLogBegins = "-- BEGIN PROG LOAD LOG --\n";
constexpr std::string_view kLogEnds = "-- END PROG LOAD LOG --";

int print_to_log(enum libbpf_print_level level, const char* format, va_list arguments) {
  const bool refusal = std::string_view(format).find(kLogBegins) != std::string_view::npos;
  const bool all = is_logged(LogLevel::kDebug);
  if (level > LIBBPF_WARN || (!all && !refusal)) return 0;
  std::vector<char> text(kMaxMessageBytes);
  const int length = std::vsnprintf(text.data(), text.size(), format, arguments);
  for (const absl::string_view line : absl::StrSplit(text.data(), '\n', absl::SkipEmpty()))
    log_debug("libbpf: {}", std::string_view(line.data(), line.size()));
  for (const std::string& line : verifier_reason(text.data()))
    log_warning("the kernel's verifier: {}", line);
  return length;
}

constexpr std::string_view kPrivilegeRemedy = "run as root or with CAP_BPF and CAP_PERFMON";

bool is_permission(int error) { return error == EPERM || error == EACCES; }

absl::string_view view(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::Status check_room_for_programs(int pid) {
  return check_free_files(kFilesOfTarget,
                          absl::StrCat("cannot load the BPF programs for pid ", pid));
}

std::vector<std::string> verifier_reason(std::string_view message) {
  const std::size_t begins = message.find(kLogBegins);
  if (begins == std::string_view::npos) return {};
  message.remove_prefix(begins + kLogBegins.size());
  message = message.substr(0, message.rfind(kLogEnds));
  std::vector<std::string> lines = absl::StrSplit(view(message), '\n', absl::SkipEmpty());
  if (lines.size() > kReasonLines) lines.erase(lines.begin(), lines.end() - kReasonLines);
  return lines;
}

void route_libbpf_messages() { libbpf_set_print(print_to_log); }

absl::Status bpf_load_error(int error) {
  if (!out_of_files(error).empty()) return file_error(error, "cannot load the BPF programs");
  const std::string cause = std::strerror(error);
  const std::string missing = missing_kernel_features(check_kernel_features());
  if (is_permission(error) && missing.empty())
    return absl::PermissionDeniedError(
        absl::StrCat("cannot load the BPF programs: ", cause, "; a security policy forbids it"));
  if (is_permission(error))
    return absl::PermissionDeniedError(
        absl::StrCat("cannot load the BPF programs: ", cause, "; ", view(kPrivilegeRemedy)));
  if (error == ENOMEM)
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot load the BPF programs: ", cause, "; free memory or choose a smaller ring buffer"));
  if (!missing.empty())
    return absl::UnimplementedError(
        absl::StrCat("cannot load the BPF programs: ", cause, "; ", missing));
  return absl::UnimplementedError(
      absl::StrCat("the kernel refuses the BPF programs: ", cause,
                   "; see memprofd's log for the verifier's reason, and memprofctl doctor for "
                   "missing kernel features"));
}

absl::Status bpf_attach_error(std::string_view what, std::string_view where, int error) {
  const std::string action = absl::StrCat("cannot attach ", view(what), " to ", view(where));
  if (!out_of_files(error).empty()) return file_error(error, action);
  const std::string text = absl::StrCat(action, ": ", std::strerror(error));
  if (is_permission(error))
    return absl::PermissionDeniedError(
        absl::StrCat(text, "; run as root, or, where probes are perf events, with CAP_SYS_ADMIN"));
  if (error == ESRCH || error == ENOENT)
    return absl::NotFoundError(absl::StrCat(text, "; the process or its file is gone"));
  if (error == EINVAL || error == ENOTSUP || error == ENOSYS)
    return absl::UnimplementedError(absl::StrCat(
        text, "; the kernel needs uprobe events and semaphores (4.20), see memprofctl doctor"));
  return absl::UnavailableError(absl::StrCat(text, "; try again, or see --log.level debug"));
}

}  // namespace memprofd
