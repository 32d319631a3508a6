// Package redis is a stand-in for Redis inside this process: it speaks RESP on a
// fixed address and lets keys expire by the clock. Everything is in memory, and gone when
// it stops. It has one database and no transactions.
package redis

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// tick is how often keys expire: one can outlive its time by as much.
const tick = 50 * time.Millisecond

// Server is a running stand-in.
//
// miniredis lets no key expire by itself. Told that time has passed, it looks at all keys,
// and answers no command meanwhile. Therefore the ends of keys are kept here: a key that a
// command may have given an end is noted when the command was carried out, read at the next
// tick, and removed when it has ended. So the work of a tick does not grow with the number
// of keys.
type Server struct {
	mini     *miniredis.Miniredis
	db       *miniredis.RedisDB
	versions map[string]uint // of db
	server   *server.Server
	addr     string
	stop     chan struct{}
	done     sync.WaitGroup
	running  sync.Map // the connections whose command comes back to hook

	mu    sync.Mutex // taken by scripts, which hold mini's lock: never ask mini with it
	noted []note
	ends  ends
}

// note is a command that was carried out, and may have given its arguments an end.
type note struct {
	args []string
	at   time.Time
	nx   bool // it changes no key that is there
}

// Start listens on addr, a host:port.
func Start(addr string) (*Server, error) {
	s := &Server{mini: miniredis.NewMiniRedis(), stop: make(chan struct{}), ends: ends{of: map[string]*end{}}}
	if err := s.mini.StartAddr(addr); err != nil {
		return nil, fmt.Errorf("start the Redis stand-in: %w", err)
	}
	s.addr, s.db, s.server = s.mini.Addr(), s.mini.DB(0), s.mini.Server()
	s.versions = versionsOf(s.db)
	s.server.SetPreHook(s.hook)
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

// hook is asked before each command, also those of scripts, and tells whether it
// has answered.
func (s *Server) hook(c *server.Peer, cmd string, args ...string) (answered bool) {
	if _, again := s.running.LoadAndDelete(c); again {
		return false
	}
	switch cmd {
	case "MULTI", "SWAPDB": // whose keys would be noted before they are written
		c.WriteError("ERR the Redis stand-in does not know " + cmd)
		return true
	case "SELECT":
		if len(args) == 1 && args[0] != "0" {
			c.WriteError("ERR DB index is out of range: the Redis stand-in has one database")
			return true
		}
	case "TTL", "PTTL": // miniredis knows the time that was given, not the time that is left
		if left, known := s.left(args); known {
			unit := time.Millisecond
			if cmd == "TTL" {
				unit = time.Second
			}
			c.WriteInt(int(left.Round(unit) / unit))
			return true
		}
	}
	if s.server.IsReadOnlyCommand(cmd) {
		return false
	}
	s.running.Store(c, nil)
	s.server.Dispatch(c, append([]string{cmd}, args...))
	n := note{args: args, at: time.Now()}
	if cmd == "SET" {
		n.args = args[:min(1, len(args))]
	}
	for _, option := range args[min(2, len(args)):] { // behind a key and what it gets
		n.nx = n.nx || strings.EqualFold(option, "NX")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(cmd, "FLUSH") {
		s.ends = ends{of: map[string]*end{}}
	}
	s.noted = append(s.noted, n)
	return true
}

// left is for how long the only one of keys lives, if it has an end that is known.
func (s *Server) left(keys []string) (left time.Duration, known bool) {
	if len(keys) != 1 {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.ends.of[keys[0]]
	if e == nil {
		return 0, false
	}
	return max(0, time.Until(e.at)), true
}

func (s *Server) expire() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.removeEnded(time.Now())
		}
	}
}

// removeEnded removes the keys that have ended. One that is written again in the
// microsecond before goes, too.
func (s *Server) removeEnded(now time.Time) {
	for {
		s.readNoted()
		s.mu.Lock()
		key, ended := s.ends.ended(now)
		s.mu.Unlock()
		if !ended {
			return
		}
		s.db.Del(key)
		s.mini.Lock()
		delete(s.versions, key)
		s.mini.Unlock()
	}
}

// readNoted reads the ends of the keys that were noted.
func (s *Server) readNoted() {
	s.mu.Lock()
	noted := s.noted
	s.noted = nil
	s.mu.Unlock()
	for _, n := range noted {
		for _, key := range n.args {
			life := s.db.TTL(key)
			s.mu.Lock()
			switch known := s.ends.of[key] != nil; {
			case life == 0:
				s.ends.drop(key)
			case !known || !n.nx:
				s.ends.set(key, n.at.Add(life))
			}
			s.mu.Unlock()
		}
	}
}

// versionsOf is how often each key was written, which transactions ask for.
// miniredis keeps that of keys that are gone, and offers no way to forget them.
func versionsOf(db *miniredis.RedisDB) map[string]uint {
	field := reflect.ValueOf(db).Elem().FieldByName("keyVersion")
	return *(*map[string]uint)(unsafe.Pointer(field.UnsafeAddr()))
}
