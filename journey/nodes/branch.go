package nodes

var branch = Type{
	Name:   "branch",
	Schema: "Branch",
	About:  "Takes the first case whose condition is true.",
	Members: []Member{
		{
			Name: "cases", Kind: List, Required: true, Min: 1, Max: 50, Way: "case",
			Of: []Member{{Name: "when", Kind: Condition, Required: true}, next},
		},
		{Name: "otherwise", Kind: Way, Drawn: Words{"Otherwise", "其他"}, Said: Words{"Otherwise", "其他情况"}},
	},
	Enters: PhaseDecide,
	Asks:   "conditions",
	Title:  Words{"Condition", "条件分支"},
	Hint:   Words{"Choose the way by a condition", "按条件选择路径"},
	Results: map[string]Words{
		"otherwise": {"Otherwise", "其他情况"},
	},
	Icon:   "M6 4v16M6 12h6a5 5 0 0 0 5-5M13.5 9.5l3.5-3.5 3.5 3.5",
	Colour: Choose,
	Guide:  "goes to the `next` of the first of its `cases` whose `when` is true, else to `otherwise`",
	Rule:   "takes the first case that is true",
	Examples: []string{
		`{"cases":[{"when":"lead.gender == 1"}]}`,
		`{"cases":[{"when":"lead.customFields.score > 5"},{"when":"lead.customFields.score > 2"},{"when":"true"}]}`,
		`{"cases":[{"when":"lead.customFields.none.x == 1"},{"when":"today.getDayOfWeek() > 2 && now >= today"}]}`,
		`{"cases":[{"when":"enrollment.params.none"},{"when":"lead.customFields.score > 2"}]}`,
	},
	Inserted: `{"cases":[{}]}`,
}
