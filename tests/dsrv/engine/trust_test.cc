// Trust: verdicts, what may be activated, and what is blocked. Over crashes.
#include "dsrv/engine/trust.h"

#include <doctest/doctest.h>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/space_views.h"
#include "tests/dsrv/engine/own_names.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

EngineOptions Options() {
  EngineOptions options;
  options.own_machine = owned::OwnMachine;
  options.own_document = owned::OwnDocument;
  return options;
}

constexpr std::string_view kOneNode =
    "id: m\nnodes:\n  a: {start: true, transitions: {ok: end}}\n  end: {final: true}\n";

class Shop : public World {
 public:
  Shop() : World(Options()) {}

  Result<bool> Put(const std::string& version, const std::vector<std::string>& keys = {}) {
    rows::PackageVersionRow row;
    row.ns = "ns";
    row.package = "p";
    row.version = version;
    row.digest = "sha256:" + version;
    row.size = kOneNode.size();
    row.documents.push_back({"machine", "m", "all.yaml", 1});
    row.nodes.push_back("m.a");
    row.workers.push_back({"all", {"*"}, {}, {}, {}});
    return Do([&](Engine& e) {
      row.upload = e.packages().BeginUpload("ns");
      e.packages().PutText("ns", row.upload, "all.yaml", std::string(kOneNode));
      return e.packages().Finish(row, RowsOf(version, keys));
    });
  }
  Result<Activated> Activate(const std::string& version) {
    const ActivateArgs args{.ns = "ns", .package = "p", .version = version};
    return Do([&](Engine& e) -> Result<Activated> {
      auto asked = e.packages().Ask(args);
      if (!asked) return asked.error();
      if (asked->done) return *asked->done;
      Sources sources{ParseMachines(kOneNode), {}};
      owned::OwnMachine(*asked->version, &sources.machines[0]);
      Compiled compiled = CompileAll(asked->under, sources, {}, e.now());
      return *e.packages().Activate(args, &sources, &compiled);
    });
  }
  Result<rows::TrustedKeyRow> Add(const std::string& key, const std::string& name = "") {
    return Do([&](Engine& e) {
      return e.packages().trust().Add("ns", {name.empty() ? key : name, key, "line", {}, "", {}});
    });
  }
  Result<rows::TrustedKeyRow> Revoke(const std::string& key) {
    return Do([&](Engine& e) { return e.packages().trust().Revoke("ns", key); });
  }
  Result<Ok> Sign(const std::string& version, const std::vector<std::string>& keys) {
    return Do([&](Engine& e) {
      return e.packages().trust().Sign(*e.packages().table().Version("ns", "p", version),
                                       RowsOf(version, keys));
    });
  }
  Reason Require(bool on, bool force = false) {
    const auto done = Do([&](Engine& e) {
      return e.packages().trust().UpdateNamespace("ns", {.require_signatures = on}, force, "");
    });
    return done ? Reason::kNone : done.error().reason;
  }
  TrustView View(const std::string& version) {
    return engine()
        .packages()
        .StandingOf(*engine().packages().table().Version("ns", "p", version))
        .trust;
  }
  std::string Why(const std::string& id) {
    const auto waits = Do([&](Engine& e) { return e.WaitsOf("ns", id); });
    return waits && !waits->why.empty() ? waits->why.begin()->second : "";
  }

 private:
  static std::vector<rows::SignatureRow> RowsOf(const std::string& version,
                                                const std::vector<std::string>& keys) {
    std::vector<rows::SignatureRow> rows;
    for (const std::string& key : keys) rows.push_back({key, key + " over " + version, {}, "me"});
    return rows;
  }
};

Reason RefusalOf(const auto& outcome) { return outcome ? Reason::kNone : outcome.error().reason; }

TEST_CASE("a verdict follows from the keys that are trusted, as they change") {
  Shop shop;
  REQUIRE(shop.Put("1.0.0", {"ann"}));
  CHECK(shop.View("1.0.0").verdict == Verdict::kUnsigned);
  REQUIRE(shop.Add("ann"));
  CHECK(shop.View("1.0.0").verdict == Verdict::kTrusted);
  REQUIRE(shop.Revoke("ann"));
  SUBCASE("as it is") {}
  SUBCASE("after a crash") { shop.Crash(); }
  const TrustView view = shop.View("1.0.0");
  CHECK(view.verdict == Verdict::kRevoked);
  REQUIRE(view.signers.size() == 1);
  CHECK(view.signers[0].name == "ann");
  CHECK(view.signers[0].revoked);
  CHECK(view.blocked.find("revoked") != std::string::npos);
  CHECK(RefusalOf(shop.Add("ann")) == Reason::kKeyRevoked);
  CHECK(RefusalOf(shop.Put("2.0.0", {"ann"})) == Reason::kKeyRevoked);
  CHECK(RefusalOf(shop.Activate("1.0.0")) == Reason::kKeyRevoked);
  REQUIRE(shop.Add("bob"));
  CHECK(shop.Put("2.0.0", {"ann", "bob"}));
}

TEST_CASE("a name is of one trusted key at a time, and may be given again") {
  Shop shop;
  REQUIRE(shop.Add("k1", "ann"));
  CHECK(RefusalOf(shop.Add("k1", "other")) == Reason::kKeyExists);
  CHECK(RefusalOf(shop.Add("k2", "ann")) == Reason::kKeyExists);
  CHECK(RefusalOf(shop.Revoke("bob")) == Reason::kNoSuchKey);
  REQUIRE(shop.Revoke("ann"));
  REQUIRE(shop.Add("k2", "ann"));
  shop.Advance(1s);
  CHECK(shop.Revoke("ann")->fingerprint == "k2");
  CHECK(shop.Revoke("k1")->revoke_time < shop.Revoke("k2")->revoke_time);
}

TEST_CASE("so many keys, and so many signatures") {
  Shop shop;
  for (size_t i = 0; i < Trust::kTrustedMost; ++i) REQUIRE(shop.Add("k" + std::to_string(i)));
  CHECK(RefusalOf(shop.Add("one more")) == Reason::kTooLarge);
  REQUIRE(shop.Revoke("k0"));
  CHECK(shop.Add("one more"));
  REQUIRE(shop.Put("1.0.0", {"a", "b", "c", "d", "e", "f", "g"}));
  REQUIRE(shop.Sign("1.0.0", {"a", "h"}));
  CHECK(shop.View("1.0.0").signers.size() == 8);
  CHECK(RefusalOf(shop.Sign("1.0.0", {"i"})) == Reason::kTooLarge);
  CHECK(shop.Sign("1.0.0", {"a"}));
}

TEST_CASE("what hangs on a revoked key waits until another trusted key signs") {
  Shop shop;
  REQUIRE(shop.Add("ann"));
  REQUIRE(shop.Add("bob"));
  REQUIRE(shop.Put("1.0.0", {"ann"}));
  REQUIRE(shop.Activate("1.0.0"));
  shop.Start("p.m", "claimed");
  const Task task = shop.ReadyOne();
  shop.Start("p.m", "waits");
  REQUIRE(shop.Revoke("ann"));
  SUBCASE("as it is") {}
  SUBCASE("after a restart") { shop.Restart(); }
  SUBCASE("after a crash") { shop.Crash(); }
  CHECK(shop.Ready().empty());
  CHECK(shop.Why("waits").find("p@1.0.0 is blocked") != std::string::npos);
  shop.Start("p.m", "later");
  CHECK(shop.Ready().empty());
  const auto blocked = shop.engine().packages().trust().InUse("ns", Verdict::kRevoked);
  REQUIRE(blocked.size() == 1);
  CHECK(blocked[0]->version == "1.0.0");
  REQUIRE(shop.Sign("1.0.0", {"bob"}));
  CHECK(shop.Why("waits").find("blocked") == std::string::npos);
  CHECK(shop.Ready().size() >= 2);
}

TEST_CASE("signatures are required from now on, or by force") {
  Shop shop;
  REQUIRE(shop.Add("ann"));
  REQUIRE(shop.Put("1.0.0"));
  REQUIRE(shop.Put("2.0.0", {"ann"}));
  REQUIRE(shop.Put("3.0.0", {"eve"}));
  REQUIRE(shop.Activate("1.0.0"));
  shop.Start("p.m", "i");
  CHECK(shop.Require(true) == Reason::kUnsigned);
  CHECK(shop.Ready().size() == 1);
  CHECK(shop.Require(true, /*force=*/true) == Reason::kNone);
  shop.Start("p.m", "j");
  CHECK(shop.Ready().empty());
  CHECK(RefusalOf(shop.Activate("3.0.0")) == Reason::kUntrustedKey);
  REQUIRE(shop.Activate("2.0.0"));
  CHECK(RefusalOf(shop.Activate("1.0.0")) == Reason::kUnsigned);
  shop.Start("p.m", "k");
  REQUIRE(shop.Ready().size() == 1);  // of the version that is signed
  CHECK(shop.Require(false) == Reason::kNone);
  CHECK(shop.Ready().size() == 1);
}

TEST_CASE("what was removed is signed still when it comes again") {
  Shop shop;
  REQUIRE(shop.Add("ann"));
  REQUIRE(shop.Put("1.0.0", {"ann"}));
  const auto removed = shop.Do([](Engine& e) {
    return e.packages().Remove({.ns = "ns", .package = "p", .version = "1.0.0"});
  });
  REQUIRE(removed);
  REQUIRE(shop.Put("1.0.0"));
  CHECK(shop.View("1.0.0").verdict == Verdict::kTrusted);
}

}  // namespace
}  // namespace dfsmr
