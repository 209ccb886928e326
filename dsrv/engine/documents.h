// Schedules, triggers and limits as they were defined: their versions, which rest in the store. The
// parts that carry them out are their keepers, and hear of what is defined and deleted.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "dsrv/engine/document_keeper.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/registry.h"
#include "dsrv/engine/types.h"
#include "fsm/when/document.h"
#include "storage/rows/document.h"

namespace dfsmr {

// A document as the feed names it: "schedule:NAME".
std::string CauseOf(DocumentKind kind, std::string_view name);

// NO_SUCH_SCHEDULE, NO_SUCH_TRIGGER or NO_SUCH_LIMIT. `version` 0: there is none at all.
Error NoSuchDocument(const rows::DocumentName& name, uint32_t version = 0);

class Documents {
 public:
  Documents(OpenTurn& turn, const EngineOptions& options, const PackageTable& packages)
      : turn_(turn), options_(options), packages_(packages) {}
  Documents(const Documents&) = delete;
  Documents& operator=(const Documents&) = delete;

  // Names the keeper of a kind. Call it before anything is defined.
  void SetKeeper(DocumentKind kind, DocumentKeeper* keeper);

  // The result that defining `document` would have.
  Result<Defined> Preview(const std::string& ns, const Document& document);
  // Adds the next version of a document, which `one` is the preview of.
  // `package`: whose it is; null: it is defined by hand.
  void Add(const std::string& ns, const Defined& one, Document document,
           const PackageVersionPtr& package = nullptr);
  // The name of the package that it belongs to; empty: it was defined by hand, or does not stand.
  Result<std::string> OwnerOf(const rows::DocumentName& name);
  // Its package no longer has it.
  Result<Ok> Retire(const rows::DocumentName& name, const PackageVersion& package);
  // kNotFound: it is not defined, or was deleted already. `client`: who deletes it. Of one that is
  // retired nothing is to be seen from then on.
  Result<Ok> Delete(const rows::DocumentName& name, const std::string& client);

  // The same, whosever it is: its namespace goes.
  Result<Ok> Drop(const rows::DocumentName& name);

  // A version (0: the latest) of a document that stands. kNotFound: there is none.
  Result<DocumentVersion> Find(const rows::DocumentName& name, uint32_t version = 0);
  // The same of one that is retired.
  Result<DocumentVersion> FindRetired(const rows::DocumentName& name, uint32_t version = 0);
  // Why there is none that stands: it is retired, or there is none at all.
  Error WhyGone(const rows::DocumentName& name);
  // A version of one that home has, wherever this is.
  Result<DocumentVersion> FindAtHome(const rows::DocumentName& name, uint32_t version);
  // How many of a namespace stand.
  uint64_t StandingIn(const std::string& ns);
  // Forgets a namespace of which none stands any more.
  void Forget(const std::string& ns);
  // Whether it stands: it is defined, and was not deleted.
  Result<bool> Stands(const rows::DocumentName& name);

 private:
  using Id = std::tuple<std::string, DocumentKind, std::string, uint32_t>;

  Result<std::optional<rows::DocumentHead>> HeadOf(const rows::DocumentName& name);
  Result<DocumentVersion> VersionOf(const rows::DocumentName& name,
                                    const rows::DocumentHead& head, uint32_t version);
  Result<DocumentVersion> Read(const rows::DocumentName& name, const rows::DocumentHead& head,
                               uint32_t version);
  void Append(ChangeKind kind, const rows::DocumentName& name, uint32_t version,
              const std::string& client, const PackageVersion* package = nullptr);
  Result<Ok> End(const rows::DocumentName& name, ChangeKind kind, const std::string& client,
                 const PackageVersion* package, bool whosever = false);

  OpenTurn& turn_;
  const EngineOptions& options_;
  const PackageTable& packages_;
  std::map<DocumentKind, DocumentKeeper*> keepers_;
  std::map<std::string, uint64_t> standing_;  // by namespace, once somebody has asked
  std::map<Id, DocumentVersion> parsed_;  // some that were read from the store
};

}  // namespace dfsmr
