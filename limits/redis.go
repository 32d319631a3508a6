package limits

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// CallTime bounds each step of a call to Redis: dialling, waiting for a free
// connection, writing, reading. Tests have more of it, before they make clients: a
// machine that stands still for a moment is no Redis that is away.
var CallTime = 500 * time.Millisecond

// ClientOptions sets o's time-outs and retries to what this package needs and
// returns it. A command is sent at most once: a retried SET NX would find its own
// first try and call an unused nonce used.
func ClientOptions(o *redis.Options) *redis.Options {
	o.DialTimeout = CallTime
	o.ReadTimeout = CallTime
	o.WriteTimeout = CallTime
	o.PoolTimeout = CallTime
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o
}

// The client writes a line about every failed dial to stderr. The same error
// reaches the caller, which logs an outage once.
func init() { logging.Disable() }
