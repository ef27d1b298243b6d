// EmbeddingQueue: texts of several requests run through the encoder together, on a thread of its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fk {

using Embedding = std::vector<float>;
// One vector for each text. Throws Error.
using EmbedBatch = std::function<std::vector<Embedding>(const std::vector<std::vector<int64_t>>& texts)>;

struct EmbeddingResult {
  std::vector<Embedding> vectors;
  std::string error;  // one sentence, in place of the vectors
};

struct EmbeddingStats {
  int64_t running = 0, waiting = 0;               // requests
  int64_t tokens = 0, batches = 0, finished = 0;  // since the start; finished: requests, with an error too
};

class EmbeddingQueue {
 public:
  // A batch has at most max_tokens, or one text. max_waiting: of texts, which are the work, whatever their requests;
  // the last request may go beyond it, since one with more texts than that could never run otherwise.
  EmbeddingQueue(EmbedBatch embed, int64_t max_tokens, size_t max_waiting);
  ~EmbeddingQueue();
  EmbeddingQueue(const EmbeddingQueue&) = delete;
  EmbeddingQueue& operator=(const EmbeddingQueue&) = delete;

  // `done` is called on the queue's thread. Throws QueueFull.
  void submit(std::vector<std::vector<int64_t>> texts, std::function<void(EmbeddingResult)> done);
  EmbeddingStats stats() const;

 private:
  struct Job {
    std::vector<std::vector<int64_t>> texts;
    std::function<void(EmbeddingResult)> done;
    EmbeddingResult result = {};
    size_t begun = 0;  // texts that are in a batch or done
  };

  void loop();
  void run(std::deque<Job>& jobs);

  EmbedBatch embed_;
  int64_t max_tokens_;
  size_t max_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  size_t waiting_texts_ = 0;  // that are in no batch yet
  EmbeddingStats stats_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fk
