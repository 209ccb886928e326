#include "dsrv/engine/limit_envoy.h"

#include "dsrv/engine/messages.h"
#include "storage/place.h"
#include "storage/rows/guest.h"

namespace dfsmr {

Result<Ok> LimitEnvoy::Recover() {
  if (!Speaks()) return Ok{};
  return rows::ScanTold(turn_.reader(), [this](const rows::ToldRow& row) {
    /*mutant message-limit-told-forgotten*/
    told_[{ResidentKey(row.ns, row.instance), row.visit}] = row.number; /*end*/
  });
}

void LimitEnvoy::Say(const std::string& ns, const std::string& id, uint64_t visit,
                     LimitAsks asks) {
  said_.emplace(Name{ResidentKey(ns, id), visit}, std::move(asks));
}

std::optional<LimitAsks> LimitEnvoy::TakeSaid(const std::string& ns, const std::string& id,
                                              uint64_t visit) {
  if (!said_ || said_->first != Name{ResidentKey(ns, id), visit}) return std::nullopt;
  auto said = std::move(said_->second);
  said_.reset();
  return said;
}

void LimitEnvoy::Tell(Stake stake) {
  const Name name{ResidentKey(stake.ns, stake.instance), stake.visit};
  const rows::ToldRow row{stake.ns, stake.instance, stake.visit,
                          (turn_.epoch() << 32) | turn_.NextId()};
  if (stake.kind == Stake::Kind::kNone) {
    if (told_.erase(name) == 0) return;
    rows::DropTold(turn_.writer(), row);
  } else {
    told_[name] = row.number;
    rows::PutTold(turn_.writer(), row);
  }
  stake.ask = row.number;
  /*mutant message-limit-stake-not-told*/ messages_.Send(kHome, {std::move(stake)}); /*end*/
}

void LimitEnvoy::GiveUp(const std::string& ns, const std::string& id) {
  if (told_.contains({ResidentKey(ns, id), 0})) return;
  messages_.Send(kHome, {Stake{.ns = ns, .instance = id}});
}

bool LimitEnvoy::Expects(const rows::Message::Verdict& verdict) const {
  const auto told = told_.find({ResidentKey(verdict.ns, verdict.instance), verdict.visit});
  return told != told_.end() &&
         /*mutant message-limit-old-answer-counts*/ told->second == verdict.ask /*end*/;
}

}  // namespace dfsmr
