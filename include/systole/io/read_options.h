#pragma once

namespace systole::io {

struct ReadOptions {
  // Of a folder or an index: follow links that lead out of the folder, and shards with several hard links.
  bool follow_links = false;
};

}  // namespace systole::io
