#include "serve/embedding_queue.h"

#include <exception>
#include <utility>

#include "core/error.h"
#include "engine/engine.h"

namespace fk {

EmbeddingQueue::EmbeddingQueue(EmbedBatch embed, int64_t max_tokens, size_t max_waiting)
    : embed_(std::move(embed)), max_tokens_(max_tokens), max_waiting_(max_waiting), thread_([this] { loop(); }) {}

EmbeddingQueue::~EmbeddingQueue() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EmbeddingQueue::submit(std::vector<std::vector<int64_t>> texts, std::function<void(EmbeddingResult)> done) {
  {
    std::lock_guard lock(mutex_);
    const bool idle = waiting_.empty() && stats_.running == 0;  // it starts at once, and nothing waits
    if (!idle && waiting_texts_ >= max_waiting_)
      throw QueueFull("{} inputs wait already, and --max-waiting allows {}; try again later.", waiting_texts_,
                      max_waiting_);
    waiting_texts_ += texts.size();
    waiting_.push_back({std::move(texts), std::move(done)});
  }
  changed_.notify_one();
}

EmbeddingStats EmbeddingQueue::stats() const {
  std::lock_guard lock(mutex_);
  EmbeddingStats stats = stats_;
  stats.waiting = static_cast<int64_t>(waiting_.size());
  return stats;
}

void EmbeddingQueue::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    std::deque<Job> jobs = std::exchange(waiting_, {});
    stats_.running = static_cast<int64_t>(jobs.size());
    lock.unlock();
    run(jobs);
    lock.lock();
    stats_.running = 0;
  }
}

// Batches may hold texts of several requests, and a request may need several batches.
void EmbeddingQueue::run(std::deque<Job>& jobs) {
  while (!jobs.empty()) {
    std::vector<std::vector<int64_t>> batch;
    std::vector<Job*> owners;
    int64_t tokens = 0;
    for (Job& job : jobs) {
      while (job.begun < job.texts.size()) {
        auto size = static_cast<int64_t>(job.texts[job.begun].size());
        if (!batch.empty() && tokens + size > max_tokens_) break;
        tokens += size;
        batch.push_back(std::move(job.texts[job.begun++]));
        owners.push_back(&job);
      }
      if (job.begun < job.texts.size()) break;
    }
    {
      std::lock_guard lock(mutex_);
      waiting_texts_ -= batch.size();
    }
    try {
      std::vector<Embedding> vectors = embed_(batch);
      for (size_t i = 0; i < vectors.size(); ++i) owners[i]->result.vectors.push_back(std::move(vectors[i]));
    } catch (const std::exception& e) {
      for (Job* owner : owners) owner->result.error = e.what();
    }
    {
      std::lock_guard lock(mutex_);
      stats_.tokens += tokens;
      ++stats_.batches;
      if (stopping_) return;
    }
    while (!jobs.empty() && jobs.front().begun == jobs.front().texts.size()) {
      {
        std::lock_guard lock(mutex_);
        ++stats_.finished;
      }
      jobs.front().done(std::move(jobs.front().result));
      jobs.pop_front();
    }
  }
}

}  // namespace fk
