// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/unread_answers.h"

#include <algorithm>
#include <map>

#include "daemon/export/grpc/grpc_access.h"

namespace memprofd {

void UnreadAnswers::begin(grpc::ServerContextBase& context) {
  std::string user = GrpcAccess::caller(context).user();
  const MutexLock lock(mutex_);
  answers_.push_back({&context, std::move(user)});
  if (answers_.size() > kMax) cut_one_off();
}

void UnreadAnswers::end(const grpc::ServerContextBase& context) {
  const MutexLock lock(mutex_);
  std::erase_if(answers_, [&](const Answer& answer) { return answer.context == &context; });
}

// The call's thread then ends the call at once, and waits for mutex_ there.
void UnreadAnswers::cut_one_off() {
  std::map<std::string, int> of_user;
  for (const Answer& answer : answers_) ++of_user[answer.user];
  const auto most =
      std::ranges::max_element(of_user, {}, [](const auto& entry) { return entry.second; });
  const auto oldest = std::ranges::find(answers_, most->first, &Answer::user);
  oldest->context->TryCancel();
  answers_.erase(oldest);
  ++stats_->grpc_cut_off;
}

}  // namespace memprofd
