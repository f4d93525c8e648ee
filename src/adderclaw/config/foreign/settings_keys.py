"""Keys that a settings file of another agent may have: read past, and said, so that the file loads as it is."""

ELSEWHERE = frozenset(
    """
    $schema advisorModel agent agentPushNotifEnabled allowAllClaudeAiMcps allowManagedMcpServersOnly
    allowManagedPermissionRulesOnly allowedChannelPlugins allowedHttpHookUrls allowedMcpServers
    alwaysThinkingEnabled askUserQuestionTimeout attribution autoCompactEnabled autoCompactWindow autoConnectIde
    autoInstallIdeExtension autoMemoryDirectory autoMemoryEnabled autoMode autoScrollEnabled autoUpdatesChannel
    availableModels awaySummaryEnabled awsAuthRefresh awsCredentialExport axScreenReader blockedMarketplaces
    browserExternalPageTools channelsEnabled claudeMd claudeMdExcludes cleanupPeriodDays companyAnnouncements
    crossSessionInbound defaultShell deniedMcpServers dialogExpiry diffTool disableAgentView disableArtifact
    disableAutoMode disableBrowserExternalNavigation disableBundledSkills disableClaudeAiConnectors
    disableCommandPluginSources disableDeepLinkRegistration disableMobileSimulatorTools disableRemoteControl
    disableSideloadFlags disableSkillShellExecution disableWorkflows disabledMcpjsonServers editorMode effortLevel
    emojiCompletionEnabled enableAllProjectMcpServers enableArtifact enableWorkflows enabledMcpjsonServers
    enabledPlugins enforceAvailableModels externalEditorContext extraKnownMarketplaces fallbackModel fastMode
    fastModePerSessionOptIn feedbackSurveyRate fileCheckpointingEnabled fileSuggestion footerLinksRegexes
    forceLoginGatewayUrl forceLoginMethod forceLoginOrgUUID forceRemoteSettingsRefresh gcpAuthRefresh
    httpHookAllowedEnvVars includeCoAuthoredBy includeGitInstructions inputNeededNotifEnabled isolatePeerMachines
    keybindingFlavor language minimumVersion model modelOverrides otelHeadersHelper outputStyle
    parentSettingsBehavior permissionExplainerEnabled plansDirectory pluginConfigs pluginSuggestionMarketplaces
    pluginTrustMessage policyHelper prUrlTemplate preferredNotifChannel prefersReducedMotion processWrapper
    promptSuggestionEnabled remote remoteControlAtStartup requiredMaximumVersion requiredMinimumVersion
    respectGitignore respondToBashCommands showClearContextOnPlanAccept showThinkingSummaries showTurnDuration
    skillListingBudgetFraction skillListingMaxDescChars skillOverrides skipAutoPermissionPrompt
    skipDangerousModePermissionPrompt skipWebFetchPreflight spellcheck spinnerTipsEnabled spinnerTipsOverride
    spinnerVerbs sshConfigs sshHostAllowlist strictKnownMarketplaces strictPluginOnlyCustomization
    subagentStatusLine switchModelsOnFlag syncClaudeAiSkills syntaxHighlightingDisabled teammateDefaultModel
    teammateMode terminalProgressBarEnabled terminalTitleFromRename theme tui ultracode useAutoModeDuringPlan
    verbose viewMode vimInsertModeRemaps voice voiceEnabled wheelScrollAccelerationEnabled
    workflowKeywordTriggerEnabled workflowSizeGuideline worktree wslInheritsWindowsSettings
    """.split()  # noqa: SIM905 - one line for each would say no more
)
OUTSIDE = ("blockReadsOutsideWorkingDirectories", "blockWritesOutsideWorkingDirectories")
PERMISSIONS = frozenset({"disableAutoMode", "skipDangerousModePermissionPrompt", "skipAutoPermissionPrompt", *OUTSIDE})
