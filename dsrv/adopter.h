// Has the engine of a partition adopt what home has changed, and its callers be known by the tokens
// that home has.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/access/access.h"
#include "dsrv/engine/reader.h"
#include "dsrv/loop/loop.h"
#include "dsrv/runtime/pool.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// Any thread.
class Adopter {
 public:
  // All of it outlives this.
  Adopter(const Reader& reader, Loop& loop, Pool& pool, Access& access)
      : reader_(reader), loop_(loop), pool_(pool), access_(access) {}

  // Of a namespace; empty: of all. One after another, since what is read first must not be adopted
  // last. `done` is called once; false: it was not adopted, and has to be asked again.
  using Done = std::function<void(bool done)>;
  void Adopt(const std::string& ns, Done done);
  // What waits is not adopted, and nothing from now on. Before the pool stops, and the loop.
  void Stop();

 private:
  using Asked = std::vector<std::pair<std::string, Done>>;
  void Next();
  void Read(const Asked& asked);
  void End(const Asked& asked, bool done);

  const Reader reader_;
  Loop& loop_;
  Pool& pool_;
  Access& access_;
  Mutex mutex_;
  bool stopped_ GUARDED(mutex_) = false;
  bool busy_ GUARDED(mutex_) = false;
  Asked asked_ GUARDED(mutex_);  // and waits
};

}  // namespace dfsmr
