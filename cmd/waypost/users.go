package main

import (
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
WAYPOST_DATABASE_URL and WAYPOST_ENCRYPTION_KEYS.`,
		Example: `  waypost users add --org acme --email ada@example.com --name Ada --role admin`,
	}, c.usersAdd(), c.usersList(), c.usersReset(), c.usersDisable())
}

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
			u.Email, u.Role = strings.ToLower(u.Email), waypost.Role(role)
			if err := u.Validate(); err != nil {
				return usageError{err}
			}
			return c.withDatabase(cmd.Context(), config.RoleUsers, func(cfg config.Config, db database) error {
				made, link, err := db.CreateUser(cmd.Context(), u)
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
					return c.printJSON(map[string]any{"items": append([]waypost.User{}, all...)})
				}
				t := c.table("ID", "ORG", "EMAIL", "NAME", "ROLE", "STATE", "CREATED")
				for _, u := range all {
					state := "active"
					if u.Disabled {
						state = "disabled"
					}
					t.row(u.ID, u.Org, u.Email, u.Name, string(u.Role), state, u.CreatedAt.UTC().Format(time.RFC3339))
				}
				return t.flush()
			})
		},
	}
	cmd.Flags().StringVar(&org, "org", "", "only those of this organisation")
	notEmpty(cmd, "org")
	return cmd
}

func (c *cli) usersReset() *cobra.Command {
	return &cobra.Command{
		Use: "reset ID", Short: "Take a user's password and sessions away; a sign-in link is shown once",
		Long: `Takes a user's password away, ends all sessions, and shows a link that signs the person in,
once, within a day. A user who was disabled may sign in again.`,
		Example: `  waypost users reset usr_…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withDatabase(cmd.Context(), config.RoleUsers, func(cfg config.Config, db database) error {
				u, err := db.User(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				link, err := db.ResetUser(cmd.Context(), u.ID)
				if err != nil {
					return err
				}
				return c.printLink(cfg, u, link)
			})
		},
	}
}

func (c *cli) usersDisable() *cobra.Command {
	return &cobra.Command{
		Use: "disable ID", Short: "End a user's sessions and let them sign in no more",
		Example: `  waypost users disable usr_…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withDatabase(cmd.Context(), config.RoleUsers, func(_ config.Config, db database) error {
				if err := db.DisableUser(cmd.Context(), args[0]); err != nil {
					return err
				}
				return c.printDone("disabled "+args[0], map[string]any{"id": args[0], "disabled": true})
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
