package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

const leadsPath = "/v1/leads"

func leadPath(id string) string { return leadsPath + "/" + url.PathEscape(id) }

func (c *cli) leads() *cobra.Command {
	return group(&cobra.Command{
		Use: "leads", Short: "Create, read, change, import and export leads",
		Example: `  waypost leads create --name 'Ada Lovelace' --mobile-phone 13800138000
  waypost leads import leads.csv --mode upsert
  waypost leads list --name Ad --sort -createdAt
  waypost leads export --to leads.csv`,
	}, c.leadsList(), c.leadsShow(), c.leadsCount(), c.leadsFields(), c.leadsCreate(), c.leadsUpdate(), c.leadsDelete(), c.leadsErase(),
		c.leadsImport(), c.leadsImports(), c.leadsExport())
}

// leadsCount posts an audience or a condition to /v1/leads/count.
func (c *cli) leadsCount() *cobra.Command {
	var in audienceInput
	var when string
	cmd := &cobra.Command{
		Use: "count --leads FILE | --filter NAME=VALUE... | --segment SEGMENT | --all | --when CONDITION", Short: "Count the leads of an audience, and name some of them",
		Long: `Counts the leads that a launch to an audience would be for now, or that meet a condition, and names up to
20 of them, spread over all. Of a list of more than 1,000 leads it estimates how many exist.`,
		Example: `  waypost leads count --filter customFields.plan=gold --filter birthday=--12-31
  waypost leads count --leads leads.txt
  waypost leads count --when 'events("purchase", duration("720h")).count() > 2'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if when != "" {
				return c.send(cmd.Context(), http.MethodPost, leadsPath+"/count", map[string]any{"when": when})
			}
			audience, err := c.audience("a count", in)
			if err != nil {
				return err
			}
			return c.send(cmd.Context(), http.MethodPost, leadsPath+"/count", map[string]any{"audience": audience})
		},
	}
	in.flags(cmd)
	cmd.Flags().StringVar(&when, "when", "", "the leads that meet a condition, as a segment has it (docs/segments.md)")
	notEmpty(cmd, "when")
	for _, other := range []string{"leads", "filter", "segment", "all"} {
		cmd.MarkFlagsMutuallyExclusive("when", other)
	}
	return cmd
}

func (c *cli) leadsFields() *cobra.Command {
	return &cobra.Command{
		Use: "fields", Short: "List the custom fields that leads have",
		Long: `Lists the custom fields that leads have, the most frequent first, each with its type and the share of leads
that have it. It looks at the newest thousand leads and at a thousand that are spread over all.`,
		Example: `  waypost leads fields`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.printItems(cmd.Context(), leadsPath+"/fields", col("NAME", "name"), col("TYPE", "type"), col("SHARE", "share"))
		},
	}
}

// leadFilters select and order leads in a list and in an export.
var leadFilters = filters{
	{"leads-ids", "leadsIds", "only those of these ids, up to 100 with commas between"},
	{"leads-group", "leadsGroup", "only those of this lead group"},
	{"region", "region", "only those of this region code"},
	{"name", "name", "only those whose name begins so"},
	{"mobile-phone", "mobilePhone", "only those with this mobile number, however it is written"},
	{"email", "email", "only those with this e-mail address"},
	{"external-id", "externalId", "only the one that your system calls so"},
	{"gender", "gender", "only those of this gender: 0 unknown, 1 male, 2 female"},
	{"test", "test", "true: only test leads; false: none of them"},
	{"birthday", "birthday", "only those born on this date, or, as --12-31, on that day of any year: --birthday=--12-31"},
	{"import", "importId", "only those that this import has created or updated (IMPORT)"},
	{"custom-field", "customFields.", "only those with this value of a custom field: NAME=VALUE; may stand several times"},
	{"created-from", "createdFrom", "only those created at or after this time (RFC 3339)"},
	{"created-to", "createdTo", "only those created before this time (RFC 3339)"},
	{"updated-from", "updatedFrom", "only those changed at or after this time (RFC 3339)"},
	{"updated-to", "updatedTo", "only those changed before this time (RFC 3339)"},
	{"sort", "sort", "order: leadsId, createdAt or updatedAt; -createdAt is newest first (default leadsId)"},
}

func (c *cli) leadsList() *cobra.Command {
	return c.listCommand(&cobra.Command{
		Short: "List leads",
		Example: `  waypost leads list --leads-group 3 --created-from 2026-01-01T00:00:00Z --sort -createdAt
  waypost leads list --mobile-phone '138 0013 8000' -o json
  waypost leads list --custom-field plan=gold --birthday=--12-31`,
	}, leadsPath, leadFilters, leadListColumns...)
}

var leadListColumns = []column{
	col("ID", "leadsId"), col("NAME", "name"), {"MOBILE", mobiles}, col("EMAIL", "email"), col("COMPANY", "company"),
	col("GROUP", "leadsGroup"), col("REGION", "region"), col("EXTERNAL", "externalId"), col("UPDATED", "updatedAt"),
}

// mobiles joins a lead's numbers.
func mobiles(m members) string {
	var numbers []string
	if json.Unmarshal(m.raw("mobilePhone"), &numbers) != nil {
		return m.text("mobilePhone")
	}
	return clean(strings.Join(numbers, ", "))
}

func (c *cli) leadsShow() *cobra.Command {
	return c.showCommand(showing{
		short: "Show a lead",
		long: `Shows a lead. With --etag it shows only the ETag of its current version, for --if-match of update
and delete.`,
		example: `  waypost leads show 1001
  waypost leads show 1001 --etag`,
		path: leadPath,
		etag: true,
	})
}

// leadField is a flag that sets a field of a lead.
type leadField struct {
	flag, name, help string
	kind             leadFieldKind
}

type leadFieldKind int

const (
	textField leadFieldKind = iota
	numberField
	listField
	customField
	consentField
	flagField
)

var leadFieldFlags = []leadField{
	{"name", "name", "its name", textField},
	{"mobile-phone", "mobilePhone", "a mobile number; may stand several times", listField},
	{"email", "email", "e-mail address", textField},
	{"gender", "gender", "0 unknown, 1 male, 2 female", numberField},
	{"birthday", "birthday", "such as 1990-12-31, or --12-31 without a year", textField},
	{"company", "company", "company name", textField},
	{"company-phone", "companyPhone", "the company's phone", textField},
	{"company-email", "companyEmail", "the company's e-mail address", textField},
	{"company-website", "companyWebsite", "the company's web address", textField},
	{"telephone", "telephone", "landline number", textField},
	{"wechat", "wechat", "WeChat account", textField},
	{"qq", "qq", "QQ number", textField},
	{"address", "address", "postal address", textField},
	{"remark", "remark", "any text", textField},
	{"leads-group", "leadsGroup", "number of its lead group", numberField},
	{"region", "region", "region code", numberField},
	{"external-id", "externalId", "its id in your system; no two leads have the same", textField},
	{"open-id", "openId", "its id at a channel", textField},
	{"custom", "customFields", "a custom field: name=text or name:=JSON; may stand several times", customField},
	{"consent", "consents", "whether it agrees to be written to: sms=true or sms=false; may stand several times", consentField},
	{"test", "test", "a test lead, which nothing counts; --test=false makes it another one", flagField},
}

// leadInput holds the flags that name a file or JSON with a lead's fields.
type leadInput struct{ file, data string }

func (in *leadInput) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&in.file, "file", "f", "", "YAML or JSON file; - is standard input")
	f.StringVarP(&in.data, "data", "d", "", "the same as JSON, instead of a file")
	notEmpty(cmd, "file", "data")
	for _, field := range leadFieldFlags {
		switch field.kind {
		case textField:
			f.String(field.flag, "", field.help)
		case numberField:
			f.Int64(field.flag, 0, field.help)
		case flagField:
			f.Bool(field.flag, false, field.help)
		default:
			f.StringArray(field.flag, nil, field.help)
		}
	}
}

// set returns the fields that flags of their own set.
func (in *leadInput) set(cmd *cobra.Command) (map[string]any, error) {
	set := map[string]any{}
	f := cmd.Flags()
	for _, field := range leadFieldFlags {
		if !f.Changed(field.flag) {
			continue
		}
		var err error
		switch field.kind {
		case textField:
			set[field.name], err = f.GetString(field.flag)
		case numberField:
			set[field.name], err = f.GetInt64(field.flag)
		case flagField:
			set[field.name], err = f.GetBool(field.flag)
		default:
			var list []string
			if list, err = f.GetStringArray(field.flag); err != nil {
				break
			}
			switch field.kind {
			case customField:
				set[field.name], err = typedPairs("--"+field.flag, list)
			case consentField:
				set[field.name], err = consentPairs(list)
			default:
				set[field.name] = list
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return set, nil
}

// consentPairs reads --consent.
func consentPairs(texts []string) (map[string]any, error) {
	pairs, err := pairsOf("--consent", texts, "channel=true or channel=false, such as sms=true")
	if err != nil {
		return nil, err
	}
	consents := map[string]any{}
	for channel, value := range pairs {
		if value != "true" && value != "false" {
			return nil, usagef("--consent %s must be true or false: --consent %s=true", clip(channel, 40), clip(channel, 40))
		}
		consents[channel] = value == "true"
	}
	return consents, nil
}

// read returns the object of the file or of --data, nil if there is neither.
func (in *leadInput) read(c *cli) (json.RawMessage, error) {
	switch {
	case in.file != "" && in.data != "":
		return nil, usagef("-f and -d are two ways to say the same; use one")
	case in.file != "":
		return c.readObject(in.file)
	case in.data == "":
		return nil, nil
	case !strings.HasPrefix(strings.TrimSpace(in.data), "{") || !json.Valid([]byte(in.data)):
		return nil, usagef(`-d must be a JSON object, such as '{"name":"Ada"}'`)
	}
	return json.RawMessage(in.data), nil
}

const businessParam = "businessParam"

// leadBody makes the body of a request: set replaces fields of object, which is a lead's
// fields or a whole body. An object that no flag changes is sent as it is, so that the
// gateway sees every mistake.
func leadBody(object json.RawMessage, set map[string]any) (any, error) {
	if object == nil {
		return map[string]any{businessParam: set}, nil
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(object, &body); err != nil {
		return nil, fmt.Errorf("read the lead: %w", err)
	}
	fields, whole := body[businessParam]
	if whole && len(set) == 0 {
		return object, nil
	}
	if !whole {
		fields = object
	}
	fields, err := override(fields, set)
	if err != nil {
		return nil, err
	}
	if !whole {
		return map[string]any{businessParam: fields}, nil
	}
	return override(object, map[string]any{businessParam: fields})
}

// leadsCreate posts one lead; flags replace members of the file.
func (c *cli) leadsCreate() *cobra.Command {
	var in leadInput
	cmd := &cobra.Command{
		Use: "create -f FILE | -d JSON | --name NAME ...", Short: "Create a lead",
		Long: `Creates a lead from flags, from a YAML or JSON file with its fields (or with the whole body and its
member businessParam), or from both: a flag wins over the file.`,
		Example: `  waypost leads create --name 'Ada Lovelace' --mobile-phone 13800138000 --custom plan=gold --custom seats:=5
  waypost leads create -d '{"name":"Ada","gender":2}'

  cat > lead.yaml <<'END'
  name: Ada Lovelace
  gender: 2
  mobilePhone: ["13800138000"]
  email: ada@example.com
  END
  waypost leads create -f lead.yaml --external-id crm-7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := in.set(cmd)
			if err != nil {
				return err
			}
			object, err := in.read(c)
			if err != nil {
				return err
			}
			if object == nil && len(set) == 0 {
				return usagef("create needs -f FILE (- is standard input), -d JSON, or flags such as --name NAME")
			}
			body, err := leadBody(object, set)
			if err != nil {
				return err
			}
			return c.send(cmd.Context(), http.MethodPost, leadsPath, body)
		},
	}
	in.flags(cmd)
	return cmd
}

// leadsUpdate patches the named fields, or puts the whole lead with --replace. Members of a shown
// lead that the gateway sets are left out, so that its output can be sent back.
func (c *cli) leadsUpdate() *cobra.Command {
	var in leadInput
	var cleared []string
	var replace bool
	cmd := &cobra.Command{
		Use: "update ID [-f FILE | -d JSON] [--FIELD VALUE ...]", Short: "Change a lead",
		Long: `Changes the fields that flags, or a YAML or JSON file, name; a flag wins over the file. All others
stay as they are, and null in a file, or --clear, clears a field. With --replace the lead becomes
what is given: fields that are not named are cleared.

What ` + "`waypost leads show ID -o json`" + ` prints can be edited and given back; leadsId, createdAt and
updatedAt in it are not sent. With --if-match nothing happens if the lead was changed meanwhile.`,
		Example: `  waypost leads update 1001 --email ada@example.com --custom plan=gold
  waypost leads update 1001 --clear remark --clear customFields.plan
  waypost leads update 1001 --consent sms=true --consent email=false --test
  waypost leads update 1001 -f lead.json --replace
  waypost leads update 1001 --company 'Analytical Engines' --if-match "$(waypost leads show 1001 --etag)"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := in.set(cmd)
			if err != nil {
				return err
			}
			for i, name := range cleared { // --clear takes a flag's name, too
				if at := slices.IndexFunc(leadFieldFlags, func(f leadField) bool { return f.flag == name }); at >= 0 {
					cleared[i] = leadFieldFlags[at].name
				}
			}
			if err := clearMembers(set, cleared); err != nil {
				return err
			}
			object, err := in.read(c)
			if err != nil {
				return err
			}
			if object == nil && len(set) == 0 {
				return usagef("update needs what is to change: flags such as --email ADDRESS, --clear FIELD, -f FILE or -d JSON")
			}
			if object, err = writable(object, args[0]); err != nil {
				return err
			}
			body, err := leadBody(object, set)
			if err != nil {
				return err
			}
			method := http.MethodPatch
			if replace {
				method = http.MethodPut
			}
			a, err := c.change(cmd, method, leadPath(args[0]), body)
			if err != nil {
				return err
			}
			return c.printAnswer(a)
		},
	}
	in.flags(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&cleared, "clear", nil, "a field to clear, such as remark or customFields.plan; may stand several times")
	f.BoolVar(&replace, "replace", false, "clear every field that is not named")
	matchFlag(cmd, "lead")
	return cmd
}

// writable removes the read-only members of a lead as `leads show` prints it.
func writable(object json.RawMessage, id string) (json.RawMessage, error) {
	var m members
	if object == nil {
		return nil, nil
	}
	if err := json.Unmarshal(object, &m); err != nil {
		return nil, fmt.Errorf("read the lead: %w", err)
	}
	kept := make(members, 0, len(m))
	for _, x := range m {
		switch x.name {
		case "leadsId":
			if text(x.value) != id {
				return nil, fmt.Errorf("what is given is lead %s, not lead %s", clip(text(x.value), 40), id)
			}
		case "createdAt", "updatedAt":
		default:
			kept = append(kept, x)
		}
	}
	if len(kept) == len(m) {
		return object, nil
	}
	return json.Marshal(kept)
}

// leadsErase deletes with Prefer: return=representation, by which the gateway answers what it has
// erased.
func (c *cli) leadsErase() *cobra.Command {
	cmd := &cobra.Command{
		Use: "erase ID", Short: "Delete a lead, and show what was erased and what is kept",
		Long: `Deletes a lead as "delete" does, and shows what was erased with it, what is kept, and until when. This cannot be
taken back.`,
		Example: `  waypost leads erase 1001
  waypost leads erase 1001 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.changeWith(cmd, http.MethodDelete, leadPath(args[0]), http.Header{"Prefer": {"return=representation"}}, nil)
			if err != nil {
				return err
			}
			if c.output == outputJSON {
				return c.printAnswer(a)
			}
			var m, erased members
			if err := errors.Join(json.Unmarshal(a.body, &m), json.Unmarshal(m.raw("erased"), &erased)); err != nil {
				return fmt.Errorf("the gateway does not say what it has erased: %w", err)
			}
			rows := make([]members, 0, len(erased))
			for _, e := range erased {
				rows = append(rows, members{{"what", json.RawMessage(strconv.Quote(e.name))}, {"count", e.value}})
			}
			fmt.Fprintf(c.stdout, "Erased lead %s, and of it:\n", clean(args[0]))
			if err := c.printRows(rows, col("WHAT", "what"), col("COUNT", "count")); err != nil {
				return err
			}
			return c.printList(m, "kept", col("KEPT", "what"), col("COUNT", "count"), col("UNTIL", "until"))
		},
	}
	matchFlag(cmd, "lead")
	return cmd
}

func (c *cli) leadsDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Delete a lead",
		Long: `Deletes a lead and cancels its enrollments. This cannot be taken back, and its leadsId is never used
again.`,
		Example: `  waypost leads delete 1001`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := c.change(cmd, http.MethodDelete, leadPath(args[0]), nil); err != nil {
				return err
			}
			return c.printDone("deleted "+clean(args[0]), map[string]any{"leadsId": json.Number(args[0]), "deleted": true})
		},
	}
	matchFlag(cmd, "lead")
	return cmd
}
