package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/app"
	"waypost/config"
)

// database is the part of the store that commands use directly.
type database interface {
	CreateApplication(ctx context.Context, actor string, a waypost.Application) (waypost.Credential, error)
	Applications(ctx context.Context, org string) ([]waypost.Application, error)
	RotateKey(ctx context.Context, actor, id string) (waypost.Credential, error)
	DisableApplication(ctx context.Context, actor, id string) error
	CreateUser(ctx context.Context, by waypost.Caller, u waypost.User) (made waypost.User, link string, err error)
	Users(ctx context.Context, org string) ([]waypost.User, error)
	User(ctx context.Context, id string) (waypost.User, error)
	RemoveSecondFactor(ctx context.Context, by waypost.Caller, id string) error
	ResetUser(ctx context.Context, by waypost.Caller, id string) (link string, err error)
	DisableUser(ctx context.Context, by waypost.Caller, id string) error
	ReleaseUser(ctx context.Context, by waypost.Caller, id string) error
	DeleteUser(ctx context.Context, by waypost.Caller, id string) error
	KeyUses(ctx context.Context) ([]waypost.KeyUse, error)
	Reseal(ctx context.Context, tell func(n int)) error
	ScheduledLaunches(ctx context.Context, after string, limit int) ([]waypost.Launch, error)
}

// withDatabase runs do on the database that the settings of a role name.
func (c *cli) withDatabase(ctx context.Context, role config.Role, do func(config.Config, database) error) error {
	cfg, err := c.load(role)
	if err != nil {
		return err
	}
	db, err := app.OpenStore(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(do(cfg, db), db.Close())
}

// actorOf is the actor in the audit log of a command that writes to the database without a gateway: the
// setting's, else the user of the system.
func actorOf(cfg config.Config) string {
	name := cfg.Client.Actor
	if name == "" {
		if u, err := user.Current(); err == nil && waypost.IsActor(u.Username) {
			name = u.Username
		}
	}
	return cmp.Or(name, "unknown")
}

func (c *cli) apps() *cobra.Command {
	return group(&cobra.Command{
		Use: "apps", Short: "Manage the applications that may call the gateway",
		Long: `Manages the applications that may call the gateway, directly on the database: it needs
WAYPOST_DATABASE_URL and WAYPOST_ENCRYPTION_KEYS. The audit log tells who did it: WAYPOST_ACTOR, or
the user of the system.`,
		Example: `  waypost apps create --org acme --name crm --grant 'leads.*' --grant journeys.run`,
	}, c.appsCreate(), c.appsList(), c.appsRotate(), c.appsDisable())
}

// appsCreate stores an application in the database, without a gateway. The store makes its secret,
// which is printed here only.
func (c *cli) appsCreate() *cobra.Command {
	var a waypost.Application
	var grants []string
	cmd := &cobra.Command{
		Use: "create --org ORG --name NAME --grant GRANT…", Short: "Create an application; its secret is shown once",
		Long: "Creates an application and shows its id, access key and secret key. The secret is shown\nthis once and never again. The grants, of which a trailing * matches the rest:\n\n  " +
			joined(waypost.AllGrants, "\n  ", grantName),
		Example: `  waypost apps create --org acme --name crm --grant 'leads.*' --grant journeys.run
  waypost apps create --org acme --name admin --grant '*' --require-if-match -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, g := range grants {
				grant, err := waypost.ParseGrant(g)
				if err != nil {
					return usageError{err}
				}
				a.Grants = append(a.Grants, grant)
			}
			if !cmd.Flags().Changed("burst") {
				a.RateBurst = 2 * a.RatePerSecond
			}
			if err := a.Validate(); err != nil {
				return usageError{err}
			}
			return c.withDatabase(cmd.Context(), config.RoleApps, func(cfg config.Config, db database) error {
				made, err := db.CreateApplication(cmd.Context(), actorOf(cfg), a)
				if err != nil {
					return err
				}
				return c.printCredential(made)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.Org, "org", "", "the organisation that it belongs to")
	f.StringVar(&a.Name, "name", "", "what people call it")
	f.StringArrayVar(&grants, "grant", nil, "what it may do; may stand several times")
	f.IntVar(&a.RatePerSecond, "rate", 100, "requests per second that it may make")
	f.IntVar(&a.RateBurst, "burst", 0, "requests that it may make at once (default twice the rate)")
	f.BoolVar(&a.RequireIfMatch, "require-if-match", false, "demand If-Match on PATCH, PUT and DELETE")
	return cmd
}

func grantName(g waypost.Grant) string { return string(g) }

// appsList reads all applications from the database at once; the list has no pages.
func (c *cli) appsList() *cobra.Command {
	var org string
	cmd := &cobra.Command{
		Use: "list", Short: "List applications", Args: cobra.NoArgs,
		Example: `  waypost apps list --org acme`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDatabase(cmd.Context(), config.RoleApps, func(_ config.Config, db database) error {
				all, err := db.Applications(cmd.Context(), org)
				if err != nil {
					return err
				}
				if c.output == outputJSON {
					return c.printJSON(map[string]any{"items": append([]waypost.Application{}, all...)})
				}
				t := c.table("ID", "ORG", "NAME", "GRANTS", "ACCESS KEYS", "RATE", "STATE", "CREATED")
				for _, a := range all {
					state := "active"
					if a.Disabled {
						state = "disabled"
					}
					t.row(a.ID, a.Org, a.Name, joined(a.Grants, ",", grantName),
						joined(a.Keys, ",", func(k waypost.KeyInfo) string { return k.AccessKey }),
						fmt.Sprintf("%d/s, burst %d", a.RatePerSecond, a.RateBurst), state, a.CreatedAt.UTC().Format(time.RFC3339))
				}
				return t.flush()
			})
		},
	}
	cmd.Flags().StringVar(&org, "org", "", "only those of this organisation")
	notEmpty(cmd, "org")
	return cmd
}

// joined writes the names of a list with sep between them.
func joined[T any](list []T, sep string, name func(T) string) string {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = name(v)
	}
	return strings.Join(names, sep)
}

func (c *cli) appsRotate() *cobra.Command {
	return &cobra.Command{
		Use: "rotate ID", Short: "Give an application a new key; its secret is shown once",
		Long: `Gives an application a new key beside the one that it has, so that its clients can change
over. Where there are two already, the older one is revoked first.`,
		Example: `  waypost apps rotate app_…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withDatabase(cmd.Context(), config.RoleApps, func(cfg config.Config, db database) error {
				made, err := db.RotateKey(cmd.Context(), actorOf(cfg), args[0])
				if err != nil {
					return err
				}
				return c.printCredential(made)
			})
		},
	}
}

func (c *cli) appsDisable() *cobra.Command {
	return &cobra.Command{
		Use: "disable ID", Short: "Refuse everything that an application asks from now on",
		Example: `  waypost apps disable app_…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withDatabase(cmd.Context(), config.RoleApps, func(cfg config.Config, db database) error {
				if err := db.DisableApplication(cmd.Context(), actorOf(cfg), args[0]); err != nil {
					return err
				}
				return c.printDone("disabled "+args[0], map[string]any{"id": args[0], "disabled": true})
			})
		},
	}
}

// printCredential shows the secret of a new key, which cannot be read again.
func (c *cli) printCredential(made waypost.Credential) error {
	a := made.Application
	if c.output == outputJSON {
		return c.printJSON(map[string]any{
			"id": a.ID, "org": a.Org, "name": a.Name, "grants": a.Grants, "accessKey": made.AccessKey, "secretKey": made.SecretKey,
		})
	}
	t := c.table()
	t.row("id", a.ID)
	t.row("accessKey", made.AccessKey)
	t.row("secretKey", made.SecretKey)
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(c.stderr, "Keep the secret key now: it is not shown again.")
	return nil
}
