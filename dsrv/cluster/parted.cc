#include "dsrv/cluster/parted.h"

namespace dfsmr {

std::vector<Question> Gathering::Next() {
  std::vector<Question> next;
  if (!begun_) {
    begun_ = true;
    next = Begin();
  } else {
    for (size_t i = 0; i < asked_.size() && !end_.as_question; ++i) {
      if (!answers_[i].status.ok() && !asked_[i].dispensable) end_.as_question = i;
    }
    if (end_.as_question) return {};
    next = Go(asked_, std::move(answers_));
    if (end_.refused) return {};
  }
  asked_ = next;
  answers_.assign(asked_.size(), {});
  return next;
}

CallEnd Gathering::End() {
  if (!end_.as_question && !end_.refused) end_.reply = JoinedReply();
  return std::move(end_);
}

std::vector<Question> AskAll(const std::string& request, const Parting& parting, Needs needs) {
  const PartitionId first = needs == Needs::kAnyOne ? parting.any : PartitionId{0};
  std::vector<Question> questions{{first, request}};
  for (PartitionId partition = 0; partition < parting.partitions; ++partition) {
    if (partition == first) continue;
    questions.push_back({partition, request, needs != Needs::kEach});
  }
  return questions;
}

namespace {

class OnePart final : public Gathering {
 public:
  OnePart(PartitionId partition, std::string request)
      : question_{partition, std::move(request)} {}

 private:
  std::vector<Question> Begin() override { return {question_}; }
  std::vector<Question> Go(const std::vector<Question>&, std::vector<PartAnswer> answers) override {
    reply_ = std::move(answers.front().reply);
    return {};
  }
  std::string JoinedReply() override { return std::move(reply_); }

  const Question question_;
  std::string reply_;
};

class RefusedCall final : public PartedCall {
 public:
  explicit RefusedCall(Error error) : error_(std::move(error)) {}
  std::vector<Question> Next() override { return {}; }
  void Take(size_t, PartAnswer) override {}
  CallEnd End() override { return {.refused = std::move(error_)}; }

 private:
  Error error_;
};

}  // namespace

std::unique_ptr<PartedCall> AskOne(PartitionId partition, const std::string& request) {
  return std::make_unique<OnePart>(partition, request);
}

std::unique_ptr<PartedCall> Refusing(Error error) {
  return std::make_unique<RefusedCall>(std::move(error));
}

}  // namespace dfsmr
