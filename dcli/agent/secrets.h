// The secrets of a task: which it needs, how they are asked for, and how its command gets them.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "dcli/call/secrets.h"
#include "dcli/keeper/keeper.h"
#include "dcli/text/masks.h"
#include "fsm/base/mutex.h"
#include "fsm/package/worker.h"

namespace dfsmr::cli {

// A secret as it is named; version 0: the newest.
using SecretRef = std::pair<std::string, uint32_t>;

// Values by name and version, as they were named.
class SecretValues {
 public:
  void Set(const SecretRef& ref, std::string value) { values_[ref] = std::move(value); }
  const std::string* Find(const SecretRef& ref) const;
  void Add(const SecretValues& others) {
    for (const auto& [ref, value] : others.values_) values_[ref] = value;
  }
  bool empty() const { return values_.empty(); }
  // Has all that is sent of the task hide them.
  void HideBy(Masks* masks) const;

 private:
  std::map<SecretRef, std::string> values_;
};

// Values of the agent's own, by name: it does not ask for these.
using OwnSecrets = std::map<std::string, std::string>;
// Lines NAME=VALUE; empty ones and those that begin with # count for nothing. The error names the
// line, and nothing of what it holds.
Result<OwnSecrets> ParseEnvFile(std::string_view text, const std::string& path);

// What a task needs: the variables of its worker (`variables`), and what {"$secret": "NAME"} stands
// for in its params and input. The agent's own values are in `have` then. Fails when the worker may
// not ask for one of them.
Result<std::vector<SecretRef>> MissingSecrets(const Worker& worker, const v1::Task& task,
                                              bool variables, const OwnSecrets& own,
                                              SecretValues* have);

// The task with the values in their places. Fails when a value is no text.
Result<v1::Task> WithSecrets(const v1::Task& task, const SecretValues& values);
// Adds the worker's variables that hold secrets, and writes the files that others name, into the
// launch's folder. Fails when a value cannot be a variable.
Result<Ok> GiveSecrets(const Worker& worker, const SecretValues& values, Launch* launch);

// Asks the server, in a thread of its own.
class SecretAsker {
 public:
  // `post` has the agent's thread do something.
  SecretAsker(Client& client, std::function<void(std::function<void()>)> post);
  ~SecretAsker();

  using Answer = std::function<void(const Result<SecretValues>&)>;
  // `answer` is called in the agent's thread.
  void Ask(const v1::Task& task, std::vector<SecretRef> refs, Answer answer);

 private:
  struct Question {
    v1::ResolveSecretsRequest request;
    std::vector<SecretRef> refs;
    Answer answer;
  };
  void Run();
  Result<SecretValues> Resolve(const Question& question);

  Client& client_;
  const std::function<void(std::function<void()>)> post_;
  Canceller cancel_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Question> questions_ GUARDED(mutex_);
  bool ended_ GUARDED(mutex_) = false;
  std::thread thread_;  // begun by the first question
};

}  // namespace dfsmr::cli
