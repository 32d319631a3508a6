package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waypost"
	"waypost/config"
)

func (c *cli) users() *cobra.Command {
	return group(&cobra.Command{
		Use: "users", Short: "Manage the people who may sign in to the console",
		Long: `Manages the people who may sign in to the console, directly on the database: it needs
WAYPOST_DATABASE_URL and WAYPOST_ENCRYPTION_KEYS. The audit log tells who did it: WAYPOST_ACTOR, or
the user of the system.`,
		Example: `  waypost users add --org acme --email ada@example.com --name Ada --role admin`,
	}, c.usersAdd(), c.usersList(), c.usersReset(), c.usersDisable(), c.usersRelease(), c.usersDelete())
}

// authorOf is the author of changes of users, of whatever organisation.
func authorOf(cfg config.Config) waypost.Author { return waypost.Author{Actor: actorOf(cfg)} }

// usersAdd stores a user in the database, without a gateway, and prints the sign-in link, of which
// the store keeps only a hash.
func (c *cli) usersAdd() *cobra.Command {
	var u waypost.User
	var role string
	cmd := &cobra.Command{
		Use: "add --org ORG --email EMAIL --name NAME --role ROLE", Short: "Add a user; the sign-in link is shown once",
		Long: `Adds a user of the console of an organisation and shows a link that signs the person in, once,
within a day; a password can be chosen there. The roles: viewer looks, marketer also changes
journeys, launches and leads, admin does everything.`,
		Example: `  waypost users add --org acme --email ada@example.com --name Ada --role marketer`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u.Email, u.Role = waypost.FoldEmail(u.Email), waypost.Role(role)
			if err := u.Validate(); err != nil {
				return usageError{err}
			}
			return c.withDatabase(cmd.Context(), config.RoleUsers, func(cfg config.Config, db database) error {
				made, link, err := db.CreateUser(cmd.Context(), authorOf(cfg), u)
				if err != nil {
					return err
				}
				return c.printLink(cfg, made, link)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&u.Org, "org", "", "the organisation whose console it is")
	f.StringVar(&u.Email, "email", "", "what the person signs in with")
	f.StringVar(&u.Name, "name", "", "what people call them")
	f.StringVar(&role, "role", "", "viewer, marketer or admin")
	return cmd
}

// usersList reads all users from the database at once; the list has no pages.
func (c *cli) usersList() *cobra.Command {
	var org string
	cmd := &cobra.Command{
		Use: "list", Short: "List users", Args: cobra.NoArgs,
		Example: `  waypost users list --org acme`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withDatabase(cmd.Context(), config.RoleUsers, func(_ config.Config, db database) error {
				all, err := db.Users(cmd.Context(), org)
				if err != nil {
					return err
				}
				if c.output == outputJSON {
					return c.printJSON(map[string]any{"items": usersAsJSON(all)})
				}
				t := c.table("ID", "ORG", "EMAIL", "NAME", "ROLE", "STATE", "SECOND FACTOR", "CREATED")
				for _, u := range all {
					state := "active"
					if u.Disabled {
						state = "disabled"
					}
					factors := cmp.Or(strings.Join(u.SecondFactor.Kinds(), ", "), "none")
					t.row(u.ID, u.Org, u.Email, u.Name, string(u.Role), state, factors, u.CreatedAt.UTC().Format(time.RFC3339))
				}
				return t.flush()
			})
		},
	}
	cmd.Flags().StringVar(&org, "org", "", "only those of this organisation")
	notEmpty(cmd, "org")
	return cmd
}

// usersAsJSON is what a list of users shows of each, never nil.
func usersAsJSON(all []waypost.User) []any {
	items := make([]any, len(all))
	for i, u := range all {
		items[i] = struct {
			waypost.User
			SecondFactor []string `json:"secondFactor"` // waypost.SecondFactorApp, SecondFactorPasskey
		}{u, u.SecondFactor.Kinds()}
	}
	return items
}

// usersReset takes the second factor away before the password. If it is interrupted between them,
// it can be repeated.
func (c *cli) usersReset() *cobra.Command {
	var factor bool
	cmd := &cobra.Command{
		Use: "reset ID", Short: "Take a user's password and sessions away; a sign-in link is shown once",
		Long: `Takes a user's password away, ends all sessions, and shows a link that signs the person in,
once, within a day. A user who was disabled may sign in again. With --second-factor, a second factor
that was lost is taken away, too; without it, the link asks for it.`,
		Example: `  waypost users reset usr_… --second-factor`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withDatabase(cmd.Context(), config.RoleUsers, func(cfg config.Config, db database) error {
				u, err := db.User(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if factor {
					if err := db.RemoveSecondFactor(cmd.Context(), authorOf(cfg), u.ID); err != nil {
						return err
					}
				}
				link, err := db.ResetUser(cmd.Context(), authorOf(cfg), u.ID)
				if err != nil {
					return err
				}
				return c.printLink(cfg, u, link)
			})
		},
	}
	cmd.Flags().BoolVar(&factor, "second-factor", false, "take the second factor away, too")
	return cmd
}

func (c *cli) usersDisable() *cobra.Command {
	return &cobra.Command{
		Use: "disable ID", Short: "End a user's sessions and let them sign in no more",
		Example: `  waypost users disable usr_…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withDatabase(cmd.Context(), config.RoleUsers, func(cfg config.Config, db database) error {
				if err := db.DisableUser(cmd.Context(), authorOf(cfg), args[0]); err != nil {
					return err
				}
				return c.printDone("disabled "+args[0], map[string]any{"id": args[0], "disabled": true})
			})
		},
	}
}

func (c *cli) usersRelease() *cobra.Command {
	return &cobra.Command{
		Use: "release ID", Short: "Let a user sign in with another account of the issuer",
		Long: `Takes the account of the OpenID Connect issuer away from a user and ends all sessions. The next account with
the user's e-mail address that signs in becomes theirs.`,
		Example: `  waypost users release usr_…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withDatabase(cmd.Context(), config.RoleUsers, func(cfg config.Config, db database) error {
				if err := db.ReleaseUser(cmd.Context(), authorOf(cfg), args[0]); err != nil {
					return err
				}
				return c.printDone("released "+args[0], map[string]any{"id": args[0], "issuer": ""})
			})
		},
	}
}

func (c *cli) usersDelete() *cobra.Command {
	return &cobra.Command{
		Use: "delete ID", Short: "Delete a user for good, with name and e-mail address",
		Long: `Deletes a user for good, with name and e-mail address, and ends all sessions. The audit log keeps the id. The last
administrator of an organisation cannot be deleted.`,
		Example: `  waypost users delete usr_…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withDatabase(cmd.Context(), config.RoleUsers, func(cfg config.Config, db database) error {
				if err := db.DeleteUser(cmd.Context(), authorOf(cfg), args[0]); err != nil {
					return err
				}
				return c.printDone("deleted "+args[0], map[string]any{"id": args[0], "deleted": true})
			})
		},
	}
}

// printLink shows a sign-in link, which cannot be read again.
func (c *cli) printLink(cfg config.Config, u waypost.User, token string) error {
	link := cfg.ConsoleURL() + "/sign-in/link?token=" + token
	if c.output == outputJSON {
		return c.printJSON(map[string]any{"id": u.ID, "org": u.Org, "email": u.Email, "name": u.Name, "role": u.Role, "link": link})
	}
	t := c.table()
	t.row("id", u.ID)
	t.row("email", u.Email)
	t.row("link", link)
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(c.stderr, "The link signs in once, within a day, and is not shown again.")
	return nil
}
