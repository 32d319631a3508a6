package nodes

var updateLead = Type{
	Name:   "updateLead",
	Schema: "UpdateLead",
	About:  "Sets fields of the lead as a PATCH does, once for each visit.",
	Members: []Member{
		{
			Name: "set", Kind: Templates, Required: true, Min: 1, Max: 64, Holds: []string{"string", "number", "boolean", "null"},
			About: "By `customFields.NAME`, or by field of the lead but `mobilePhone`. A string is a Liquid template; null clears.",
			Draft: "by field of the lead",
		},
		done, notDone,
	},
	Enters: PhaseDecide,
	Acts:   true,
	Title:  Words{"Change lead", "更新线索"},
	Hint:   Words{"Set fields of the lead", "设置线索的字段"},
	Timeline: map[string]Words{
		"updated": {"Lead changed", "已更新线索"},
		"failed":  {"Lead not changed", "未能更新线索"},
	},
	Results: map[string]Words{
		"updated": {"Lead changed", "已更新线索"},
		"failed":  {"Lead not changed", "未能更新线索"},
	},
	Icon: "M5.4 7.5a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0M2.8 19.5a6.4 6.4 0 0 1 8.7-5.9" +
		"M13 20.5l.7-3 5.2-5.2 2.3 2.3-5.2 5.2z",
	Colour: Other,
	Guide: "[sets](#changing-the-lead-and-emitting-events) fields of the lead, then goes to `next`; if the lead cannot hold them, to " +
		"`onFailure`, or to `next` without one",
	Rule: "sets fields of the lead as `PATCH /v1/leads/{id}` does: `customFields.NAME`, or any but `mobilePhone`. A string is a template, " +
		"`null` clears. What the lead cannot hold fails the node: nothing is set, and the lead goes to `onFailure`, or to `next` without it",
	Examples: []string{
		`{"set":{"customFields.score":"{{ lead.customFields.score | plus: 1 }}","remark":"{{ lead.name }}"}}`,
		`{"set":{"gender":"{{ lead.customFields.score }}"}}`,
		`{"set":{"gender":2,"remark":null}}`,
	},
	Inserted: `{"set":{}}`,
}

// done and notDone are the ways of what an enrollment does to what is stored.
var (
	done    = Member{Name: "next", Kind: Way, Drawn: Words{"Done", "完成"}, Said: Words{"Done", "完成"}}
	notDone = Member{
		Name: "onFailure", Kind: Way, Else: "next", Label: Words{"If that fails", "若失败"},
		Drawn: Words{"Not done", "未完成"}, Said: Words{"Not done", "未完成"},
	}
)
