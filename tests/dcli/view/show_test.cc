#include "dcli/view/show.h"

#include <doctest/doctest.h>

#include <sstream>

namespace dfsmr::cli {
namespace {

std::string Shown(const v1::Instance& instance) {
  std::ostringstream out;
  std::ostringstream err;
  Context context(out, err);
  PrintWhole(context, instance);
  return out.str();
}

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("what is ready is shown with those that have refused it") {
  v1::Instance instance;
  instance.set_id("i");
  v1::Token* token = instance.add_tokens();
  token->set_node("work");
  token->set_state(v1::Token::READY);
  CHECK_FALSE(Has(Shown(instance), "REFUSED BY"));
  for (const char* worker : {"h1", "h2"}) {
    v1::Refusal* refusal = token->add_refusals();
    refusal->set_worker(worker);
    refusal->set_reason(std::string("no disk on ") + worker);
    refusal->mutable_time()->set_seconds(1'700'000'000);
  }
  const std::string text = Shown(instance);
  CHECK(Has(text, "REFUSED BY"));
  CHECK(Has(text, "no disk on h1"));
  CHECK(Has(text, "no disk on h2"));
  CHECK(Has(text, "2023-11-1"));
  token->set_state(v1::Token::CLAIMED);  // it has been begun after all
  CHECK_FALSE(Has(Shown(instance), "REFUSED BY"));
}

TEST_CASE("of a plan's steps that wait the first ones are told, of a machine's nodes all") {
  v1::Instance instance;
  instance.set_id("i");
  for (int i = 0; i < 5; ++i) {
    v1::Token* token = instance.add_tokens();
    token->set_node("s." + std::to_string(i));
    token->set_state(v1::Token::READY);
    token->set_why("no worker waits for it");
  }
  CHECK(Has(Shown(instance), "Waits at s.4"));
  CHECK_FALSE(Has(Shown(instance), "more"));
  instance.add_steps()->set_path("s.0");
  const std::string text = Shown(instance);
  CHECK(Has(text, "Waits at s.2"));
  CHECK_FALSE(Has(text, "Waits at s.3"));
  CHECK(Has(text, "2 more: -o wide shows them"));
}

TEST_CASE("a claim whose agent is gone is shown as lost") {
  v1::Instance instance;
  instance.set_id("i");
  v1::Token* token = instance.add_tokens();
  token->set_node("work");
  token->set_state(v1::Token::CLAIMED);
  v1::Claim* claim = token->add_claims();
  claim->set_worker("h1");
  CHECK_FALSE(Has(Shown(instance), "lost"));
  claim->set_lost(true);
  CHECK(Has(Shown(instance), "h1 (lost)"));
}

}  // namespace dfsmr::cli
