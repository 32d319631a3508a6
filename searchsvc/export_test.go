package searchsvc

import "time"

// Hurry makes an indexer wait for milliseconds where it waits for seconds, and write
// few articles at once. A hold lasts by the source's clock.
func (x *Indexer) Hurry(hold time.Duration) {
	x.pace = pace{
		batch: 3, poll: 5 * time.Millisecond, hold: hold, renew: 50 * time.Millisecond,
		retry: time.Millisecond, longest: 10 * time.Millisecond, pause: time.Millisecond, check: 5 * time.Millisecond,
	}
}
