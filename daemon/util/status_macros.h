// SPDX-License-Identifier: Apache-2.0
// Early return of errors on the control path.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot be in parentheses.
#define RETURN_IF_ERROR(expression)                                         \
  do {                                                                      \
    if (absl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

#define MEMPROFD_CONCAT_(a, b) a##b
#define MEMPROFD_CONCAT(a, b) MEMPROFD_CONCAT_(a, b)
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_(MEMPROFD_CONCAT(statusor_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                              \
  if (!result.ok()) return std::move(result).status();     \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)
