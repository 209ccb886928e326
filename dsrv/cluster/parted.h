// A call that several partitions have a share in: what each is asked, and how their answers are
// joined. It goes in rounds: what is asked next may depend on what was answered. Knows no threads
// and no servers.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "fsm/base/result.h"
#include "storage/store.h"

namespace dfsmr {

// How the store is parted, as far as such a call needs to know.
struct Parting {
  uint16_t partitions = 1;
  PartitionId any = 0;  // one that somebody serves, at best the server asked
};

// What one partition is asked.
struct Question {
  PartitionId partition = 0;
  std::string request;
  bool dispensable = false;  // what is not answered soon is left out
  std::string method = {};   // empty: that of the call
};

struct PartAnswer {
  grpc::Status status = {};
  std::string reason = {};  // why not, for programs
  std::string reply = {};
  std::string server = {};  // that was to answer, for people
};

// One of three: a reply; an end like that of a question of the last round; a refusal.
struct CallEnd {
  std::string reply = {};
  std::optional<size_t> as_question = {};
  std::optional<Error> refused = {};
};

class PartedCall {
 public:
  virtual ~PartedCall() = default;
  // What is asked next, all at once, when everything before is answered. Empty: nothing more.
  virtual std::vector<Question> Next() = 0;
  // The answer to a question of this round, by its number. Several may come at once, each once.
  virtual void Take(size_t question, PartAnswer answer) = 0;
  // After the last round.
  virtual CallEnd End() = 0;
  // Of the tasks that this Ready finds the caller is told with the reply. Null: of none.
  virtual const v1::ReadyRequest* Wanted() const { return nullptr; }
  // The namespaces that the whole enters, and a question may not: each of them is admitted to all.
  virtual std::vector<std::string> Namespaces() const { return {}; }
};

// A call that fails as soon as a question does, unless that one is dispensable.
class Gathering : public PartedCall {
 public:
  std::vector<Question> Next() final;
  void Take(size_t question, PartAnswer answer) final { answers_[question] = std::move(answer); }
  CallEnd End() final;

 protected:
  // The first round.
  virtual std::vector<Question> Begin() = 0;
  // Takes the answers of a round, in the order of its questions: what is asked next.
  virtual std::vector<Question> Go(const std::vector<Question>& asked,
                                   std::vector<PartAnswer> answers) = 0;
  virtual std::string JoinedReply() = 0;

  // Reads a reply. False: it cannot be read, and the call ends.
  template <typename Message>
  bool Read(const std::string& bytes, Message* reply) {
    if (reply->ParseFromString(bytes)) return true;
    Refuse({Code::kInternal, Reason::kNone, "the answer of a partition's owner cannot be read"});
    return false;
  }
  void Refuse(Error error) { end_.refused = std::move(error); }

 private:
  bool begun_ = false;
  std::vector<Question> asked_;
  std::vector<PartAnswer> answers_;
  CallEnd end_;
};

// The same question for all partitions. What is in memory is added up over those that answer soon;
// what has to be whole needs all of them.
enum class Needs : uint8_t {
  kEach,
  kOfHome,  // the rest is dispensable
  kAnyOne,  // the same
};
// The one that is needed comes first.
std::vector<Question> AskAll(const std::string& request, const Parting& parting, Needs needs);

// A call that is one partition's after all.
std::unique_ptr<PartedCall> AskOne(PartitionId partition, const std::string& request);
// One that nobody need be asked about.
std::unique_ptr<PartedCall> Refusing(Error error);

// Null: the method is not one of these, or the request cannot be read.
std::unique_ptr<PartedCall> MakeParted(const std::string& method, const std::string& request,
                                       const Parting& parting);
// Whether calls of the method are parted.
bool IsParted(const std::string& method);

}  // namespace dfsmr
