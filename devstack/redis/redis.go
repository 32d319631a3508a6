// Package redis is a stand-in for Redis inside this process: it speaks RESP on a
// fixed address and lets keys expire by the clock. It keeps everything in
// memory; what it holds is gone when it stops.
package redis

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// How often keys expire. Telling the server that time has passed looks at every
// key, so the pause grows with their number: at most a four hundredth of the time
// is spent on it. Nobody is answered meanwhile: with the nonces of some hundred
// thousand signed requests within 660 s that is half a second, and requests are
// refused with 503. Such a load needs a Redis.
//
// A key can vanish up to one pause early, hence the cap: a nonce kept for 660 s still
// outlives the 600 s in which it could be replayed.
const (
	minPause   = 50 * time.Millisecond
	maxPause   = 30 * time.Second
	pauseShare = 400
)

// Server is a running stand-in.
type Server struct {
	mini *miniredis.Miniredis
	addr string
	stop chan struct{}
	done sync.WaitGroup
}

// Start listens on addr, a host:port.
func Start(addr string) (*Server, error) {
	s := &Server{mini: miniredis.NewMiniRedis(), stop: make(chan struct{})}
	if err := s.mini.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("start the Redis stand-in: %w", err)
	}
	s.addr = s.mini.Addr()
	s.done.Go(s.expire)
	return s, nil
}

// Addr is the address it listens on.
func (s *Server) Addr() string { return s.addr }

// Stop closes all connections and waits until they are gone.
func (s *Server) Stop() {
	close(s.stop)
	s.done.Wait()
	s.mini.Close()
}

func (s *Server) expire() {
	last, pause := time.Now(), minPause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-timer.C:
		}
		now := time.Now()
		s.mini.FastForward(now.Sub(last))
		last = now
		pause = min(max(time.Since(now)*pauseShare, minPause), maxPause)
		timer.Reset(pause)
	}
}
