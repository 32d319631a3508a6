package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/app"
	"waypost/config"
)

func (c *cli) keys() *cobra.Command {
	return group(&cobra.Command{
		Use: "keys", Short: "Change the keys that data at rest is encrypted with",
		Long: `Tells what the keys of WAYPOST_ENCRYPTION_KEYS have encrypted, and encrypts all of it with
the first one, directly on the database: it needs WAYPOST_DATABASE_URL and
WAYPOST_ENCRYPTION_KEYS. To change the key, while everything runs on:

  1. Make one: echo k2:$(openssl rand -base64 32). Add it at the end of the list of every
     process (k1:…,k2:…), and restart them: now all can decrypt with it.
  2. Move it to the front of all lists (k2:…,k1:…), and restart them: now all encrypt with it.
  3. waypost keys rotate, with that list.
  4. Keep k1 for as long as rotate says at its end, for Temporal's histories, and until search
     tokens that were issued with it have expired (30 days at most); then remove it.`,
		Example: `  waypost keys list
  waypost keys rotate`,
	}, c.keysList(), c.keysRotate())
}

// withKeys runs do on the database, with the ids of the keys.
func (c *cli) withKeys(ctx context.Context, do func(cfg config.Config, ids []string, db database) error) error {
	return c.withDatabase(ctx, config.RoleKeys, func(cfg config.Config, db database) error {
		ring, err := waypost.ParseKeyring(string(cfg.Encryption.Keys))
		if err != nil {
			return fmt.Errorf("WAYPOST_ENCRYPTION_KEYS: %w", err)
		}
		return do(cfg, ring.IDs(), db)
	})
}

func (c *cli) keysList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Tell which key has encrypted how much of the database",
		Long: `Counts the values in the database that each key has encrypted, by table. The first key
encrypts, the others of WAYPOST_ENCRYPTION_KEYS decrypt; one that is missing there should
be added again, since its values cannot be read. It reads all of these tables.`,
		Example: `  waypost keys list -o json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withKeys(cmd.Context(), func(_ config.Config, ids []string, db database) error {
				uses, err := db.KeyUses(cmd.Context())
				if err != nil {
					return err
				}
				keys := keysOf(ids, uses)
				if c.output == outputJSON {
					return c.printJSON(map[string]any{"items": keys})
				}
				return c.printKeys(keys)
			})
		},
	}
}

// keyState is a key's use, and the number of values that it has encrypted.
type keyState struct {
	ID     string           `json:"id"` // "" for values that name no key
	State  string           `json:"state"`
	Values int64            `json:"values"`
	Tables map[string]int64 `json:"tables"`
	names  []string         // of the tables, in their order
}

const (
	keyEncrypts = "encrypts"
	keyDecrypts = "decrypts"
	keyMissing  = "missing"
)

// keysOf lists the keys of the ring in its order, then the missing ones.
func keysOf(ids []string, uses []waypost.KeyUse) []keyState {
	var keys []keyState
	add := func(id, state string) {
		keys = append(keys, keyState{ID: id, State: state, Tables: map[string]int64{}})
	}
	for _, id := range ids {
		add(id, keyDecrypts)
	}
	keys[0].State = keyEncrypts
	for _, u := range uses {
		i := slices.IndexFunc(keys, func(k keyState) bool { return k.ID == u.Key })
		if i < 0 {
			i = len(keys)
			add(u.Key, keyMissing)
		}
		key := &keys[i]
		key.Values += u.Values
		key.Tables[u.Table] = u.Values
		key.names = append(key.names, u.Table)
	}
	return keys
}

func (c *cli) printKeys(keys []keyState) error {
	t := c.table("KEY", "STATE", "VALUES", "TABLES")
	for _, k := range keys {
		t.row(cmp.Or(k.ID, "none"), k.State, strconv.FormatInt(k.Values, 10),
			joined(k.names, ",", func(name string) string { return fmt.Sprint(name, ":", k.Tables[name]) }))
	}
	return t.flush()
}

func (c *cli) keysRotate() *cobra.Command {
	return &cobra.Command{
		Use: "rotate", Short: "Encrypt everything with the first key that an older one has encrypted",
		Long: `Encrypts what older keys have encrypted with the first key of WAYPOST_ENCRYPTION_KEYS: all
secrets, messages and answers in the database, and the Schedules of recurring launches in
Temporal (WAYPOST_TEMPORAL_ADDRESS, WAYPOST_TEMPORAL_NAMESPACE; needed only if there are
any). Every gateway and worker must have that key already, in front. They go on meanwhile.
It can be stopped at any time and run again: it goes on with what is left.

It ends with exit code 1 if an older key is still needed for any of that. The histories of
Temporal's workflows stay as they are: keep the older keys until every workflow that began
before has ended and the retention of the namespace has passed.`,
		Example: `  WAYPOST_ENCRYPTION_KEYS=k2:…,k1:… waypost keys rotate`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withKeys(cmd.Context(), func(cfg config.Config, ids []string, db database) error {
				return c.rotateKeys(cmd.Context(), cfg, ids, db)
			})
		},
	}
}

// rotateKeys encrypts every value in the database, and the schedules of launches in Temporal, with
// the newest key, ids[0]. Values that stay with an older key are an error. It can be stopped and
// run again: what is encrypted with the newest key is not touched.
func (c *cli) rotateKeys(ctx context.Context, cfg config.Config, ids []string, db database) error {
	began := time.Now()
	uses, err := db.KeyUses(ctx)
	if err != nil {
		return stopped(ctx, err)
	}
	total := others(keysOf(ids, uses))
	var done int64
	shown := progress{c: c}
	line := func() string { return fmt.Sprintf("encrypted %d of %d values with %s", done, total, ids[0]) }
	unread := db.Reseal(ctx, func(n int) {
		done = min(done+int64(n), total) // gateways and workers encrypt more meanwhile
		shown.flow(share(done, total), line)
	})
	if ctx.Err() != nil {
		return stopped(ctx, shown.end(unread))
	}
	if uses, err = db.KeyUses(ctx); err != nil {
		return stopped(ctx, shown.end(err))
	}
	keys := keysOf(ids, uses)
	if done = max(0, total-others(keys)); total > 0 { // a second rotate at the same time may have done some
		shown.show(share(done, total), line())
	}
	if err := shown.end(nil); err != nil {
		return err
	}
	schedules, unscheduled := app.ResealSchedules(ctx, cfg, db.ScheduledLaunches)
	if c.output == outputJSON {
		err = c.printJSON(map[string]any{"items": keys, "schedules": schedules})
	} else {
		err = c.printKeys(keys)
	}
	if err := errors.Join(err, unread, unscheduled, leftBehind(keys)); err != nil {
		return stopped(ctx, err)
	}
	if schedules > 0 {
		fmt.Fprintf(c.stderr, "The schedules of %d recurring launches are encrypted with %s, too.\n", schedules, ids[0])
	}
	if len(ids) > 1 {
		fmt.Fprintf(c.stderr, `Temporal's histories still need %s: keep it in WAYPOST_ENCRYPTION_KEYS until no workflow is open that began
before now, and the retention of the namespace has passed since. This counts the open ones:
  temporal workflow count --namespace %s --query "ExecutionStatus = 'Running' AND StartTime < '%s'"
Search tokens that were issued with it are valid for as long as it is there: 30 days at most.
`, strings.Join(ids[1:], ", "), cfg.Temporal.Namespace, began.UTC().Format(time.RFC3339))
	}
	return nil
}

// others counts the values of all keys but the first.
func others(keys []keyState) (n int64) {
	for _, k := range keys[1:] {
		n += k.Values
	}
	return n
}

// leftBehind is the error about values that still need another key than the first.
func leftBehind(keys []keyState) error {
	var faults []error
	for _, k := range keys[1:] {
		switch {
		case k.Values == 0:
		case k.State == keyMissing && k.ID == "":
			faults = append(faults, fmt.Errorf("%d values name no key: they were changed", k.Values))
		case k.State == keyMissing:
			faults = append(faults, fmt.Errorf("%d values need the key %s: add it to WAYPOST_ENCRYPTION_KEYS and run it again", k.Values, k.ID))
		default:
			faults = append(faults, fmt.Errorf("%d values still need the key %s; if none is named above, a process has it in front: "+
				"move %s to the front of all lists, restart, and run it again", k.Values, k.ID, keys[0].ID))
		}
	}
	return errors.Join(faults...)
}

// stopped returns err, or what to do next if the command was interrupted.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("stopped; run it again to go on with what is left")
	}
	return err
}
