package main

import "github.com/spf13/cobra"

// audienceInput is the flags that say for which leads something is done.
type audienceInput struct {
	leads     string
	filters   []string
	everybody bool
}

func (in *audienceInput) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&in.leads, "leads", "", "a file of leadsIds, one a line or as a JSON list; - is standard input")
	f.StringArrayVar(&in.filters, "filter", nil, "only leads that match, such as leadsGroup=3; may stand several times")
	f.BoolVar(&in.everybody, "all", false, "every lead")
	filled(cmd, "leads")
}

// audienceHelp explains the flags.
const audienceHelp = `
  --leads FILE          the leads in a file: their leadsIds, one a line, or as a JSON list
  --filter NAME=VALUE   the leads that match all filters: leadsGroup, region, name (a prefix),
                        mobilePhone, email, externalId, createdFrom, createdTo, updatedFrom,
                        updatedTo (RFC 3339; To is exclusive)
  --all                 every lead
`

// audience reads what the flags say, as the API has it.
func (c *cli) audience(what string, in audienceInput) (map[string]any, error) {
	ways := 0
	for _, given := range []bool{in.leads != "", len(in.filters) > 0, in.everybody} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, usagef("%s needs one of --leads FILE, --filter NAME=VALUE and --all", what)
	}
	if in.leads != "" {
		list, err := c.readLeads(in.leads)
		return map[string]any{"leadsIds": list}, err
	}
	filter, err := leadFilter(in.filters)
	return map[string]any{"filter": filter}, err
}
