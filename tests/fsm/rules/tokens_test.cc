// Tokens against a list that is searched from end to end, by random operations.
#include "fsm/rules/tokens.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace dfsmr {
namespace {

constexpr std::array kStates = {TokenState::kReady, TokenState::kClaimed, TokenState::kWaiting,
                                TokenState::kHeld, TokenState::kDone};

// What Tokens promises, said as simply as can be.
struct Naive {
  std::vector<Token> tokens;
  std::map<NodeIndex, uint32_t> arrived;
  std::set<NodeIndex> doomed;
  std::map<uint64_t, std::optional<Token>> touched;  // by visit: as it was at the last Forget
  std::set<NodeIndex> dirty;
  std::map<NodeIndex, Ended> ended;

  void Note(const Token& token) {
    if (token.home != kNoNode) dirty.insert(token.home);
    touched.emplace(token.visit, token);
  }
  void NoteNew(const Token& token) {
    if (token.home != kNoNode) {
      dirty.insert(token.home);
      ended.erase(token.home);
    }
    touched.emplace(token.visit, std::nullopt);
  }
  size_t Count(TokenState state) const {
    return static_cast<size_t>(std::ranges::count(tokens, state, &Token::state));
  }
};

class Pair {
 public:
  Pair(uint32_t seed, bool plan) : random_(seed), plan_(plan) {}

  size_t Below(size_t n) { return random_() % n; }
  Token Fresh() {
    Token token;
    token.visit = ++visits_;
    token.state = kStates[Below(kStates.size())];
    token.node = static_cast<NodeIndex>(Below(20));
    if (!plan_) return token;
    do {
      token.home = static_cast<NodeIndex>(Below(30));
    } while (std::ranges::find(naive_.tokens, token.home, &Token::home) != naive_.tokens.end());
    token.step = StepState();
    return token;
  }

  void Add() {
    if (naive_.tokens.size() >= 20) return;
    Token token = Fresh();
    naive_.NoteNew(token);
    naive_.tokens.push_back(token);
    CHECK(tokens_.Add(token) == token);
  }
  void Replace() {
    if (naive_.tokens.empty()) return;
    const size_t slot = Below(naive_.tokens.size());
    Token token = Fresh();
    if (plan_ && Below(3) > 0) token.home = naive_.tokens[slot].home;
    naive_.Note(naive_.tokens[slot]);
    naive_.NoteNew(token);
    naive_.tokens[slot] = token;
    tokens_.Replace(slot, token);
  }
  void Remove() {
    if (naive_.tokens.empty()) return;
    const size_t slot = Below(naive_.tokens.size());
    naive_.Note(naive_.tokens[slot]);
    naive_.tokens[slot] = naive_.tokens.back();
    naive_.tokens.pop_back();
    tokens_.Remove(slot);
  }
  void Change() {
    if (naive_.tokens.empty()) return;
    const size_t slot = Below(naive_.tokens.size());
    Token& there = naive_.tokens[slot];
    naive_.Note(there);
    there.state = kStates[Below(kStates.size())];
    there.attempt += 1;
    Token& token =
        Below(2) == 0 ? tokens_.Mutable(slot) : *tokens_.FindMutable(there.visit);
    token.state = there.state;
    token.attempt += 1;
  }
  void Arrivals() {
    if (!plan_) return;
    const auto node = static_cast<NodeIndex>(Below(30));
    switch (Below(4)) {
      case 0:
        CHECK(tokens_.Arrive(node) == ++naive_.arrived[node]);
        naive_.dirty.insert(node);
        break;
      case 1:
        tokens_.Open(node);
        if (naive_.arrived.erase(node) > 0) naive_.dirty.insert(node);
        break;
      case 2:
        tokens_.Doom(node);
        naive_.doomed.insert(node);
        naive_.dirty.insert(node);
        break;
      default: {
        const Ended ended{Below(2) == 0, visits_, {}, {}};
        tokens_.End(node, ended);
        naive_.ended[node] = ended;
        naive_.dirty.insert(node);
      }
    }
  }
  void Clear() {
    for (const Token& token : naive_.tokens) naive_.Note(token);
    naive_.tokens.clear();
    naive_.arrived.clear();
    naive_.doomed.clear();
    tokens_.Clear();
  }
  void Step() {
    switch (Below(24)) {
      case 0: Clear(); break;
      case 1: case 2: case 3: tokens_.Forget(); naive_.touched.clear(); break;
      case 4: case 5: tokens_.ForgetRows(); naive_.dirty.clear(); naive_.ended.clear(); break;
      case 6: case 7: case 8: case 9: Add(); break;
      case 10: case 11: case 12: Replace(); break;
      case 13: case 14: Remove(); break;
      case 15: case 16: case 17: Arrivals(); break;
      default: Change();
    }
  }

  void Compare() {
    const Tokens& tokens = tokens_;
    REQUIRE(tokens.size() == naive_.tokens.size());
    CHECK(tokens.empty() == naive_.tokens.empty());
    for (size_t i = 0; i < tokens.size(); ++i) {
      const Token& token = naive_.tokens[i];
      CHECK(tokens[i] == token);
      CHECK(tokens.SlotOf(token.visit) == i);
      CHECK(*tokens.Find(token.visit) == token);
      if (plan_) CHECK(tokens.SlotOfHome(token.home) == i);
    }
    CHECK(tokens.Find(visits_ + 1) == nullptr);
    CHECK(std::equal(tokens.begin(), tokens.end(), naive_.tokens.begin(), naive_.tokens.end()));
    for (TokenState state : kStates) CHECK(tokens.Count(state) == naive_.Count(state));
    std::map<uint64_t, std::optional<Token>> touched;
    for (const Tokens::Touched& one : tokens.touched()) {
      CHECK(touched.emplace(one.visit, one.before).second);
    }
    CHECK(touched == naive_.touched);
    CHECK(tokens.dirty() == naive_.dirty);
    for (NodeIndex home = 0; home < 30; ++home) {
      const auto known = naive_.ended.find(home);
      const Ended* ended = tokens.EndedAt(home);
      REQUIRE((ended != nullptr) == (known != naive_.ended.end()));
      if (ended) CHECK(*ended == known->second);
      CHECK(tokens.Doomed(home) == naive_.doomed.contains(home));
      const bool there = std::ranges::find(naive_.tokens, home, &Token::home) !=
                         naive_.tokens.end();
      CHECK(tokens.SlotOfHome(home).has_value() == there);
    }
    const std::map<NodeIndex, uint32_t> arrived(tokens.arrived().begin(), tokens.arrived().end());
    CHECK(arrived == naive_.arrived);
  }

  // As the store gives them back: the same tokens, and nothing of them a change.
  void Restore() {
    Tokens restored;
    for (const Token& token : naive_.tokens) restored.Restore(token);
    for (const auto& [node, count] : naive_.arrived) restored.RestoreArrived(node, count);
    for (NodeIndex home : naive_.doomed) restored.RestoreDoomed(home);
    CHECK(restored == tokens_);
    CHECK(restored.touched().empty());
    CHECK(restored.dirty().empty());
    tokens_ = std::move(restored);
    naive_.touched.clear();
    naive_.dirty.clear();
    naive_.ended.clear();
  }

 private:
  std::mt19937 random_;
  bool plan_;
  uint64_t visits_ = 0;
  Tokens tokens_;
  Naive naive_;
};

TEST_CASE("tokens are what a list of them is, whatever was done to it") {
  for (const bool plan : {true, false}) {
    for (uint32_t seed = 1; seed <= 40; ++seed) {
      CAPTURE(plan);
      CAPTURE(seed);
      Pair pair(seed, plan);
      for (int step = 0; step < 150; ++step) {
        pair.Step();
        pair.Compare();
        if (pair.Below(40) == 0) pair.Restore();
      }
    }
  }
}

TEST_CASE("tokens of different arrivals, or with another one doomed, differ") {
  Tokens a, b;
  CHECK(a == b);
  a.Arrive(3);
  CHECK_FALSE(a == b);
  a.Open(3);
  CHECK(a == b);
  CHECK(a.dirty() == std::set<NodeIndex>{3});  // its row is to say that nothing has arrived
  a.Doom(4);
  CHECK_FALSE(a == b);
}

TEST_CASE("opening a join where nothing has arrived writes nothing") {
  Tokens tokens;
  tokens.Open(3);
  CHECK(tokens.dirty().empty());
}

TEST_CASE("a token that stands again on a step has not ended it") {
  Tokens tokens;
  tokens.End(5, {true, 1, {}, {}});
  CHECK(tokens.EndedAt(5));
  Token token;
  token.visit = 2;
  token.home = 5;
  tokens.Add(token);
  CHECK_FALSE(tokens.EndedAt(5));
}

}  // namespace
}  // namespace dfsmr
