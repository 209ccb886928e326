#include "dsrv/cluster/bulk_calls.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "dsrv/access/credentials.h"
#include "dsrv/cluster/fields.h"
#include "dsrv/wire/bulks.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/pages.h"
#include "fsm/base/limits.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

constexpr int kSampleShown = 20;
constexpr int kBulksOfAPage = 1'000;
constexpr size_t kMostPages = 100;  // that are read of one partition

bool BulkRuns(const v1::Bulk& bulk) { return bulk.state() == v1::Bulk::RUNNING; }

// As told by who knows more of it, the later.
int RankOf(v1::Bulk::State state) {
  constexpr v1::Bulk::State kRanks[] = {v1::Bulk::DONE, v1::Bulk::LIMITED, v1::Bulk::STOPPED,
                                        v1::Bulk::PREVIEW, v1::Bulk::RUNNING};
  return static_cast<int>(std::ranges::find(kRanks, state) - std::begin(kRanks));
}

// A call of bulks of one id. A partition that has none of it has no share in it; when none has, it
// is as the first of them says.
class BulkCall final : public PartedCall {
 public:
  explicit BulkCall(std::vector<Question> questions) : questions_(std::move(questions)) {}

  std::vector<Question> Next() override {
    if (!questions_.empty()) answers_.resize(questions_.size());
    return std::exchange(questions_, {});
  }
  void Take(size_t question, PartAnswer answer) override {
    answers_[question] = std::move(answer);
  }
  CallEnd End() override {
    std::optional<v1::Bulk> sum;
    for (size_t i = 0; i < answers_.size(); ++i) {
      const PartAnswer& answer = answers_[i];
      if (answer.status.error_code() == grpc::StatusCode::NOT_FOUND) continue;
      v1::Bulk part;
      if (!answer.status.ok() || !part.ParseFromString(answer.reply)) return {.as_question = i};
      sum ? Add(part, &*sum) : (void)(sum = std::move(part));
    }
    if (!sum) return {.as_question = 0};
    return {.reply = sum->SerializeAsString()};
  }

 private:
  std::vector<Question> questions_;
  std::vector<PartAnswer> answers_;
};

// One that may change no more than so many: it is looked first how many each partition would, and
// each gets its share.
class LimitedBulk final : public PartedCall {
 public:
  LimitedBulk(v1::StartBulkRequest request, std::vector<Question> questions)
      : request_(std::move(request)), questions_(std::move(questions)) {}

  std::vector<Question> Next() override {
    if (begins_) return begins_->Next();
    if (!std::exchange(looked_, true)) return Previews();
    for (size_t i = 0; i < answers_.size(); ++i) {
      if (!answers_[i].status.ok()) failed_ = failed_.value_or(i);
    }
    if (failed_) return {};
    begins_.emplace(Shares());
    return begins_->Next();
  }
  void Take(size_t question, PartAnswer answer) override {
    if (begins_) return begins_->Take(question, std::move(answer));
    answers_[question] = std::move(answer);
  }
  CallEnd End() override {
    return failed_ ? CallEnd{.as_question = failed_} : begins_->End();
  }

 private:
  std::vector<Question> Previews() {
    std::vector<Question> previews;
    for (const Question& one : questions_) {
      v1::StartBulkRequest request;
      request.ParseFromString(one.request);
      request.set_validate_only(true);
      previews.push_back({one.partition, request.SerializeAsString()});
    }
    answers_.resize(previews.size());
    return previews;
  }
  std::vector<Question> Shares() {
    std::vector<uint64_t> would;
    for (const PartAnswer& answer : answers_) {
      v1::Bulk preview;
      preview.ParseFromString(answer.reply);
      would.push_back(preview.changed());
    }
    const auto shares = ShareOut(request_.at_most(), would);
    std::vector<Question> begins;
    for (size_t i = 0; i < shares.size(); ++i) {
      if (shares[i] == 0) continue;  // that would be no limit
      v1::StartBulkRequest request;
      request.ParseFromString(questions_[i].request);
      request.set_at_most(shares[i]);
      begins.push_back({questions_[i].partition, request.SerializeAsString()});
    }
    return begins;
  }

  const v1::StartBulkRequest request_;
  const std::vector<Question> questions_;
  bool looked_ = false;
  std::vector<PartAnswer> answers_;
  std::optional<size_t> failed_;
  std::optional<BulkCall> begins_;
};

// The bulks of all partitions, whole, of which a page is shown: there are not many.
class BulkList final : public Gathering {
 public:
  BulkList(v1::ListBulksRequest request, std::string filters, std::string after, size_t limit,
           const Parting& parting)
      : request_(std::move(request)),
        filters_(std::move(filters)),
        after_(std::move(after)),
        limit_(limit),
        parting_(parting) {}

 private:
  std::vector<Question> Begin() override {
    request_.set_page_size(kBulksOfAPage);
    request_.clear_page_token();
    return AskAll(request_.SerializeAsString(), parting_, Needs::kEach);
  }
  std::vector<Question> Go(const std::vector<Question>& asked,
                           std::vector<PartAnswer> answers) override {
    std::vector<Question> more;
    for (size_t i = 0; i < answers.size(); ++i) {
      v1::ListBulksResponse part;
      if (!Read(answers[i].reply, &part)) return {};
      for (v1::Bulk& bulk : *part.mutable_bulks()) {
        const auto [known, is_new] = bulks_.try_emplace(bulk.request().id());
        is_new ? known->second.Swap(&bulk) : Add(bulk, &known->second);
      }
      if (part.next_page_token().empty()) continue;
      request_.set_page_token(part.next_page_token());
      more.push_back({asked[i].partition, request_.SerializeAsString()});
    }
    return ++pages_ < kMostPages ? more : std::vector<Question>();
  }
  std::string JoinedReply() override {
    std::vector<v1::Bulk*> all;
    for (auto& [id, bulk] : bulks_) all.push_back(&bulk);
    std::ranges::sort(all, [](const v1::Bulk* one, const v1::Bulk* other) {
      const auto place = [](const v1::Bulk& bulk) {
        return std::tuple(bulk.start_time().seconds(), bulk.start_time().nanos(),
                          bulk.request().id());
      };
      return place(*other) < place(*one);
    });
    auto at = all.begin();
    if (!after_.empty()) {
      at = std::ranges::find_if(all, [this](const v1::Bulk* bulk) {
        return bulk->request().id() == after_;
      });
      if (at != all.end()) ++at;
    }
    v1::ListBulksResponse reply;
    for (; at != all.end(); ++at) {
      if (static_cast<size_t>(reply.bulks_size()) == limit_ ||
          reply.ByteSizeLong() > limits::kMessage * 3 / 4) {
        reply.set_next_page_token(PageToken(filters_, reply.bulks().rbegin()->request().id()));
        break;
      }
      reply.add_bulks()->Swap(*at);
    }
    return reply.SerializeAsString();
  }

  v1::ListBulksRequest request_;
  const std::string filters_;
  const std::string after_;
  const size_t limit_;
  const Parting parting_;
  size_t pages_ = 0;
  std::map<std::string, v1::Bulk> bulks_;  // by id
};

// What each partition is asked: of instances those that live there.
std::vector<Question> BulkQuestions(const v1::StartBulkRequest& request, const Parting& parting) {
  if (request.instances().empty()) {
    return AskAll(request.SerializeAsString(), parting, Needs::kEach);
  }
  std::map<PartitionId, v1::StartBulkRequest> parts;
  for (const std::string& id : request.instances()) {
    const PartitionId partition = PartitionOf(request.namespace_(), id, parting.partitions);
    const auto [part, is_new] = parts.try_emplace(partition, request);
    if (is_new) part->second.clear_instances();
    part->second.add_instances(id);
  }
  std::vector<Question> questions;
  for (const auto& [partition, part] : parts) {
    questions.push_back({partition, part.SerializeAsString()});
  }
  return questions;
}

}  // namespace

void Add(const v1::Bulk& part, v1::Bulk* sum) {
  AddNumbers(part, {"looked_at", "matched", "changed", "unchanged", "refused"}, sum);
  for (const auto& [reason, count] : part.reasons()) (*sum->mutable_reasons())[reason] += count;
  auto& request = *sum->mutable_request();
  request.set_at_most(request.at_most() + part.request().at_most());
  request.mutable_instances()->MergeFrom(part.request().instances());
  auto& sample = *sum->mutable_sample();
  sample.MergeFrom(part.sample());
  std::ranges::sort(sample);
  while (sample.size() > kSampleShown) sample.RemoveLast();
  sum->set_at_least(sum->at_least() || part.at_least());
  if (RankOf(part.state()) > RankOf(sum->state())) sum->set_state(part.state());
  TakeLess(part, {"start_time"}, sum);
  TakeGreater(part, {"end_time"}, sum);
  if (BulkRuns(*sum)) sum->clear_end_time();
}

std::vector<uint64_t> ShareOut(uint64_t at_most, const std::vector<uint64_t>& would) {
  const uint64_t all = std::accumulate(would.begin(), would.end(), uint64_t{0});
  std::vector<uint64_t> shares;
  uint64_t left = at_most;
  for (const uint64_t one : would) {
    const double share = all == 0 ? static_cast<double>(at_most) / static_cast<double>(would.size())
                                  : static_cast<double>(at_most) * static_cast<double>(one) /
                                        static_cast<double>(all);
    shares.push_back(std::min(left, static_cast<uint64_t>(share)));
    left -= shares.back();
  }
  // What rounding has left goes to those that lack most, one each.
  while (left > 0 && !shares.empty()) {
    size_t poorest = 0;
    int64_t lacks = INT64_MIN;
    for (size_t i = 0; i < shares.size(); ++i) {
      const auto one = static_cast<int64_t>(would[i]) - static_cast<int64_t>(shares[i]);
      if (one > lacks) poorest = i;
      lacks = std::max(lacks, one);
    }
    const uint64_t portion = lacks > 0 ? 1 : left;
    shares[poorest] += portion;
    left -= portion;
  }
  return shares;
}

std::unique_ptr<PartedCall> MakeStartBulk(const std::string& bytes, const Parting& parting) {
  v1::StartBulkRequest request;
  if (!request.ParseFromString(bytes)) return nullptr;
  if (!ToBulk(request, {})) return AskOne(parting.any, bytes);  // its services say what is wrong
  if (request.id().empty() && !request.validate_only()) request.set_id("b" + RandomHex(10));
  auto questions = BulkQuestions(request, parting);
  if (request.at_most() > 0 && !request.validate_only() && questions.size() > 1) {
    return std::make_unique<LimitedBulk>(std::move(request), std::move(questions));
  }
  return std::make_unique<BulkCall>(std::move(questions));
}

std::unique_ptr<PartedCall> MakeGetBulk(const std::string& bytes, const Parting& parting) {
  return std::make_unique<BulkCall>(AskAll(bytes, parting, Needs::kEach));
}

std::unique_ptr<PartedCall> MakeStopBulk(const std::string& bytes, const Parting& parting) {
  return std::make_unique<BulkCall>(AskAll(bytes, parting, Needs::kEach));
}

std::unique_ptr<PartedCall> MakeBulkList(const std::string& bytes, const Parting& parting) {
  v1::ListBulksRequest request;
  if (!request.ParseFromString(bytes)) return nullptr;
  const auto ns = ToNamespace(request.namespace_());
  const auto limit = ToPageSize(request.page_size());
  if (!ns || !limit) return AskOne(parting.any, bytes);
  const std::string filters = *ns + "\nbulks";
  const auto after = ParsePageToken(filters, request.page_token());
  if (!after) return AskOne(parting.any, bytes);
  return std::make_unique<BulkList>(std::move(request), filters, *after, *limit, parting);
}

}  // namespace dfsmr
