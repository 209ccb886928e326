#include "dsrv/calls/outbox.h"

#include <algorithm>
#include <iterator>

#include "dsrv/wire/checks.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/result.h"

namespace dfsmr {
namespace {

void Append(std::vector<Task>* from, std::vector<Task>* to) {
  std::ranges::move(*from, std::back_inserter(*to));
  from->clear();
}

}  // namespace

bool Outbox::Filled() const {
  return touched_ || next_.tasks_size() + next_.results_size() + next_.extended_size() +
                             next_.cancelled_claims_size() + next_.killed_claims_size() >
                         0;
}

void Outbox::Add(SessionUpdate update) {
  for (const Task& task : update.tasks) ToProto(task, next_.add_tasks());
  for (std::string& claim : update.cancelled) next_.add_cancelled_claims(std::move(claim));
  for (std::string& claim : update.killed) next_.add_killed_claims(std::move(claim));
  for (std::string& claim : update.finishable) next_.add_finishable_claims(std::move(claim));
  Append(&update.tasks, &next_tasks_);
}

void Outbox::Add(v1::WorkResponse* answers) {
  for (auto& result : *answers->mutable_results()) next_.add_results()->Swap(&result);
  for (auto& item : *answers->mutable_extended()) next_.add_extended()->Swap(&item);
}

const v1::WorkResponse* Outbox::Write() {
  current_.Clear();
  current_.Swap(&next_);
  current_tasks_ = std::exchange(next_tasks_, {});
  if (current_.tasks_size() > 1) KeepBack();
  writing_ = true;
  touched_ = false;
  return &current_;
}

// Of several tasks those that a message has no room for go with the next one.
void Outbox::KeepBack() {
  auto& tasks = *current_.mutable_tasks();
  size_t bytes = current_.ByteSizeLong();
  int left = tasks.size();
  while (left > 1 && bytes > kReplyBytes) bytes -= tasks.Get(--left).ByteSizeLong();
  const auto from = current_tasks_.begin() + left;
  next_tasks_.assign(std::move_iterator(from), std::move_iterator(current_tasks_.end()));
  current_tasks_.erase(from, current_tasks_.end());
  for (int i = left; i < tasks.size(); ++i) next_.add_tasks()->Swap(tasks.Mutable(i));
  while (tasks.size() > left) tasks.RemoveLast();
}

void Outbox::Written() {
  writing_ = false;
  current_tasks_.clear();
}

void Outbox::Broke() {
  Append(&current_tasks_, &unsent_.doubtful);
  Drop();
  writing_ = false;
}

void Outbox::Drop() {
  Append(&next_tasks_, &unsent_.undelivered);
  next_.Clear();
  touched_ = false;
}

void Outbox::Return(std::vector<Task> tasks) { Append(&tasks, &unsent_.undelivered); }

}  // namespace dfsmr
