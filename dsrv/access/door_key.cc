#include "dsrv/access/door_key.h"

#include "dsrv/access/credentials.h"

namespace dfsmr::door {

const std::string& Key() {
  static const std::string key = RandomHex(32);
  return key;
}

}  // namespace dfsmr::door
